/* Every kind of MPI traffic, checked: sizes from a byte to 4 MiB in a ring, collectives, and one-sided operations. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void check(const char* what, long is, long should_be) {
    if (is == should_be) return;
    fprintf(stderr, "rank %d, %s: %ld instead of %ld\n", rank, what, is, should_be);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int after(void) { return (rank + 1) % ranks; }
static int before(void) { return (rank + ranks - 1) % ranks; }

static void ring(int size) {
    unsigned char *to = malloc((size_t)size), *from = malloc((size_t)size);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < size; i++) to[i] = (unsigned char)(i * 7 + rank + round);
        MPI_Sendrecv(to, size, MPI_BYTE, after(), 5, from, size, MPI_BYTE, before(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; i++) check("ring", from[i], (unsigned char)(i * 7 + before() + round));
    }
    free(to);
    free(from);
}

static void collectives(void) {
    const int mine = rank + 1, count = 100000;
    int sum = 0;
    for (int round = 0; round < 200; round++) {
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        check("allreduce", sum, ranks * (ranks + 1) / 2);
    }
    int *out = malloc(sizeof(int) * (size_t)(count * ranks)), *in = malloc(sizeof(int) * (size_t)(count * ranks));
    for (int i = 0; i < count * ranks; i++) out[i] = rank * 1000000 + i;
    for (int round = 0; round < 5; round++) {
        MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
        for (int peer = 0; peer < ranks; peer++)
            for (int i = 0; i < count; i++) check("alltoall", in[peer * count + i], peer * 1000000 + rank * count + i);
    }
    MPI_Bcast(out, count, MPI_INT, 0, MPI_COMM_WORLD);
    check("broadcast", out[77], 77);
    free(out);
    free(in);
}

static void one_sided(void) {
    enum { kWords = 1 << 18, kCounter = 5000, kRounds = 100 };
    int* words;
    MPI_Win window;
    MPI_Win_allocate(kWords * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
    memset(words, 0, kWords * sizeof(int));
    const int value = rank + 100, one = 1;
    int read_back = 0, old;
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, after(), rank, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check("put", words[before()], before() + 100);
    MPI_Get(&read_back, 1, MPI_INT, after(), rank, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check("get", read_back, value);
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < kRounds; round++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT, 0, kCounter, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Get(&read_back, 1, MPI_INT, 0, kCounter, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
        check("fetch and add", read_back, kRounds * ranks);
    }
    MPI_Win_free(&window);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int size = 1; size <= 4 << 20; size *= 4) ring(size);
    collectives();
    one_sided();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("all right, %d ranks\n", ranks);
    MPI_Finalize();
    return 0;
}
