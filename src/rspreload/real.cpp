#include "rspreload/real.h"

#include <dlfcn.h>
#include <link.h>
#include <rdma/rsocket.h>

#include <atomic>
#include <cstdint>

namespace verbena::rspreload {
namespace {

template <class Function>
void find(Function& function, const char* name) {
    void* symbol = dlsym(RTLD_NEXT, name);
    static_assert(sizeof symbol == sizeof function);
    __builtin_memcpy(&function, &symbol, sizeof symbol);
}

Real look_up() {
    Real found{};
    find(found.socket, "socket");
    find(found.bind, "bind");
    find(found.listen, "listen");
    find(found.accept, "accept");
    find(found.accept4, "accept4");
    find(found.connect, "connect");
    find(found.shutdown, "shutdown");
    find(found.close, "close");
    find(found.close_range, "close_range");
    find(found.closefrom, "closefrom");
    find(found.fclose, "fclose");
    find(found.getpeername, "getpeername");
    find(found.getsockname, "getsockname");
    find(found.setsockopt, "setsockopt");
    find(found.getsockopt, "getsockopt");
    find(found.recv, "recv");
    find(found.recvfrom, "recvfrom");
    find(found.recvmsg, "recvmsg");
    find(found.read, "read");
    find(found.readv, "readv");
    find(found.send, "send");
    find(found.sendto, "sendto");
    find(found.sendmsg, "sendmsg");
    find(found.write, "write");
    find(found.writev, "writev");
    find(found.sendfile, "sendfile");
    find(found.sendmmsg, "sendmmsg");
    find(found.recvmmsg, "recvmmsg");
    find(found.preadv2, "preadv2");
    find(found.pwritev2, "pwritev2");
    find(found.splice, "splice");
    find(found.poll, "poll");
    find(found.ppoll, "ppoll");
    find(found.select, "select");
    find(found.pselect, "pselect");
    find(found.epoll_create1, "epoll_create1");
    find(found.epoll_ctl, "epoll_ctl");
    find(found.epoll_wait, "epoll_wait");
    find(found.epoll_pwait, "epoll_pwait");
    find(found.epoll_pwait2, "epoll_pwait2");
    find(found.dup, "dup");
    find(found.dup2, "dup2");
    find(found.dup3, "dup3");
    find(found.fcntl, "fcntl");
    find(found.ioctl, "ioctl");
    return found;
}

// Where an object's code lies in memory.
struct Range {
    std::uintptr_t begin = 0, end = 0;
    bool contains(std::uintptr_t address) const { return address >= begin && address < end; }
};

struct Search {
    std::uintptr_t inside;
    Range found;
};

int look_at(dl_phdr_info* object, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const auto& segment = object->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const Range range{object->dlpi_addr + segment.p_vaddr,
                          object->dlpi_addr + segment.p_vaddr + segment.p_memsz};
        if (range.contains(search.inside)) {
            search.found = range;
            return 1;
        }
    }
    return 0;
}

template <class Function>
Range range_of(Function* function) {
    Search search{reinterpret_cast<std::uintptr_t>(function), {}};
    dl_iterate_phdr(look_at, &search);
    return search.found;
}

}  // namespace

const Real& real() {
    static const Real functions = look_up();
    return functions;
}

bool is_library_code(const void* address) {
    static const Range rdmacm = range_of(&::rsocket), ibverbs = range_of(&::ibv_get_device_list);
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return rdmacm.contains(value) || ibverbs.contains(value);
}

}  // namespace verbena::rspreload
