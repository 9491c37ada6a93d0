// The address of a unix socket whose name is in no file system (unix(7)): every process of the network
// namespace sees it, and it goes with its last descriptor.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace verbena {

class AbstractAddress {
   public:
    explicit AbstractAddress(std::string_view name) {
        address_.sun_family = AF_UNIX;
        // The leading zero byte makes it abstract.
        if (name.size() + 1 > sizeof address_.sun_path) return;
        std::memcpy(address_.sun_path + 1, name.data(), name.size());
        size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    explicit operator bool() const { return size_ > 0; }  // the name fits

    const sockaddr* get() const { return static_cast<const sockaddr*>(static_cast<const void*>(&address_)); }
    socklen_t size() const { return size_; }

   private:
    sockaddr_un address_{};
    socklen_t size_ = 0;
};

}  // namespace verbena
