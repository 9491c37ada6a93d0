/* Opens the library named by its argument, or says why not. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    if (argc == 2 && dlopen(argv[1], RTLD_NOW)) return 0;
    const char* error = dlerror();
    fprintf(stderr, "%s\n", error ? error : "usage: loader LIBRARY");
    return 1;
}
