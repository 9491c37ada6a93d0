#include "tool/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "tool/installation.h"

namespace verbena::tool {
namespace {

// A file in memory, read-only.
class Mapping {
   public:
    explicit Mapping(const std::string& file) {
        int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) return;
        struct stat status {};
        if (fstat(fd, &status) == 0 && status.st_size > 0) {
            void* data =
                mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
            if (data != MAP_FAILED)
                bytes_ = {static_cast<const char*>(data), static_cast<std::size_t>(status.st_size)};
        }
        close(fd);
    }
    ~Mapping() {
        if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    std::string_view bytes() const { return bytes_; }

    template <class T>
    bool read(std::size_t offset, T& out) const {
        if (offset > bytes_.size() || bytes_.size() - offset < sizeof out) return false;
        std::memcpy(&out, bytes_.data() + offset, sizeof out);
        return true;
    }

   private:
    std::string_view bytes_;
};

struct Linkage {
    bool dynamic = false;  // has an interpreter
    std::string rpath;     // DT_RPATH without DT_RUNPATH: searched before LD_LIBRARY_PATH
};

// The file offset of a virtual address, or 0.
std::size_t file_offset(const Mapping& file, const Elf64_Ehdr& header, Elf64_Addr address) {
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!file.read(header.e_phoff + i * sizeof segment, segment)) return 0;
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    }
    return 0;
}

Linkage linkage_of(const Mapping& file, const Elf64_Ehdr& header) {
    Linkage linkage;
    Elf64_Phdr dynamic{};
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!file.read(header.e_phoff + i * sizeof segment, segment)) return linkage;
        if (segment.p_type == PT_INTERP) linkage.dynamic = true;
        if (segment.p_type == PT_DYNAMIC) dynamic = segment;
    }
    Elf64_Addr strings = 0;
    std::size_t rpath = 0;
    bool runpath = false;
    for (std::size_t at = 0; at < dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        if (!file.read(dynamic.p_offset + at, entry) || entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
        if (entry.d_tag == DT_RPATH) rpath = entry.d_un.d_val;
        if (entry.d_tag == DT_RUNPATH) runpath = true;
    }
    std::size_t place = strings ? file_offset(file, header, strings) : 0;
    if (rpath && !runpath && place && place + rpath < file.bytes().size()) {
        std::string_view rest = file.bytes().substr(place + rpath);
        linkage.rpath = std::string(rest.substr(0, rest.find('\0')));
    }
    return linkage;
}

// Whether a folder of the RPATH has RDMA libraries.
bool names_others(const std::string& rpath, const std::string& file) {
    std::istringstream folders(rpath);
    std::string folder;
    while (std::getline(folders, folder, ':')) {
        for (const char* origin : {"$ORIGIN", "${ORIGIN}"})
            if (folder.rfind(origin, 0) == 0)
                folder = file.substr(0, file.rfind('/')) + folder.substr(std::strlen(origin));
        for (const char* const library : kLibraries)
            if (access((folder + library).c_str(), R_OK) == 0) return true;
    }
    return false;
}

}  // namespace

std::string find_program(const std::string& name, const std::string& other_than) {
    const auto can_be_run = [](const std::string& file, struct stat& status) {
        return stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0;
    };
    struct stat status {};
    if (name.find('/') != std::string::npos) return can_be_run(name, status) ? name : std::string();
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : kDefaultPath);
    std::string folder;
    struct stat other {};
    const bool has_other = !other_than.empty() && stat(other_than.c_str(), &other) == 0;
    while (std::getline(folders, folder, ':')) {
        std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
        if (!can_be_run(candidate, status)) continue;
        if (has_other && status.st_dev == other.st_dev && status.st_ino == other.st_ino) continue;
        return candidate;
    }
    return {};
}

namespace {

bool gains_id(const struct stat& status) {
    return ((status.st_mode & S_ISUID) && status.st_uid != geteuid()) ||
           ((status.st_mode & S_ISGID) && status.st_gid != getegid());
}

bool is_elf(const Mapping& file, Elf64_Ehdr& header) {
    return file.read(0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
}

constexpr const char* kOtherWidth = "it is a 32-bit program; Verbena's libraries are 64-bit";

// What keeps a program, if it is one, from having libraries by that variable, or what `judge` says of it.
template <class Judge>
std::string judged(const std::string& name, const char* variable, Judge judge) {
    struct stat status {};
    if (stat(name.c_str(), &status) != 0) return {};
    const Mapping file(name);
    Elf64_Ehdr header;
    if (!is_elf(file, header)) return {};
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return kOtherWidth;
    if (gains_id(status))
        return std::string("it is set-user-ID or set-group-ID, so the loader ignores ") + variable;
    return judge(file, linkage_of(file, header));
}

}  // namespace

std::string why_not_preloaded(const std::string& name) {
    return judged(name, "LD_PRELOAD", [](const Mapping&, const Linkage& linkage) -> std::string {
        return linkage.dynamic ? "" : "it is statically linked, so nothing can be preloaded";
    });
}

std::string why_not_ours(const std::string& name) {
    return judged(name, "LD_LIBRARY_PATH", [](const Mapping& file, const Linkage& linkage) -> std::string {
        // A static program is worth a word only if it has an RDMA library inside.
        return !linkage.dynamic && file.bytes().find("/infiniband") != std::string_view::npos
                   ? "it is statically linked and carries its own libibverbs"
                   : "";
    });
}

bool prefers_others(const std::string& name) {
    const Mapping file(name);
    Elf64_Ehdr header;
    return is_elf(file, header) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
           names_others(linkage_of(file, header).rpath, name);
}

}  // namespace verbena::tool
