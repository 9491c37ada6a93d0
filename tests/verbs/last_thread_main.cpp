// A program that ends with its last thread, as many do: the first leaves by pthread_exit(), the others
// return. Its exit status is 0 if exit() ran behind the last of them; a test runs it with a limit of time.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<bool> worked{false};

// Some while behind the first thread's end.
void* work(void*) {
    usleep(300'000);
    worked = true;
    return nullptr;
}

void end() {
    if (!worked) _exit(3);
}

}  // namespace

int main() {
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    pthread_t worker;
    if (!context || std::atexit(end) != 0 || pthread_create(&worker, nullptr, work, nullptr) != 0) return 2;
    pthread_detach(worker);
    pthread_exit(nullptr);
}
