// abi_status LIBRARY LIST: says of every exported name whether something implements it or a stub answers, and
// calls each stub to see that it answers what the call's return convention wants. LIST is what
// scripts/gen-abi wrote.
//
// One line per name and node, "name@node: implemented", ": answers EOPNOTSUPP", ...; exits with 1 if a stub
// answers wrongly, sets no reason, or a name is missing. A stub is known by its address: they lie in the
// section verbena_stubs of the library's file. Implementations are never called.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Range {
    std::uintptr_t begin = 0, end = 0;
    bool contains(const void* address) const {
        auto value = reinterpret_cast<std::uintptr_t>(address);
        return value >= begin && value < end;
    }
};

// Where the section of stubs lies in the file's own addresses; empty if there is none.
Range stub_section(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    ElfW(Ehdr) header;
    if (bytes.size() < sizeof header) return {};
    std::memcpy(&header, bytes.data(), sizeof header);
    std::vector<ElfW(Shdr)> sections(header.e_shnum);
    std::memcpy(sections.data(), bytes.data() + header.e_shoff, sections.size() * sizeof(ElfW(Shdr)));
    const char* names = bytes.data() + sections[header.e_shstrndx].sh_offset;
    for (const auto& section : sections)
        if (std::strcmp(names + section.sh_name, "verbena_stubs") == 0)
            return {section.sh_addr, section.sh_addr + section.sh_size};
    return {};
}

using Stub = long (*)(long, long, long, long, long, long);

// What a caller sees: the low half of the return register for calls that return an int.
__attribute__((no_sanitize("undefined"))) long call(void* address) {
    return reinterpret_cast<Stub>(address)(0, 0, 0, 0, 0, 0);
}

// "" if the stub answered as the convention wants, else what it did.
std::string wrong_answer(void* address, const std::string& convention, int error) {
    errno = 0;
    long value = call(address);
    int seen = errno;
    int low = static_cast<int>(value);
    bool good;
    if (convention == "errno")
        good = low == error;
    else if (convention == "negerrno")
        good = value == -error;
    else if (convention == "minus1")
        good = value == -1 && seen == error;
    else if (convention == "null" || convention == "zero")
        good = value == 0 && seen == error;
    else if (convention == "void")
        good = seen == error;
    else if (convention == "quiet")
        good = seen == 0;
    else if (convention == "text")
        good = std::strcmp(reinterpret_cast<const char*>(value), "unknown") == 0 && seen == error;
    else if (convention == "rereg")
        good = low == -4 && seen == error;
    else
        return "has an unknown convention, " + convention;
    if (good) return "";
    return "answered " + std::to_string(value) + " with errno " + std::to_string(seen) + " (" + convention +
           ")";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: abi_status LIBRARY LIST\n";
        return 2;
    }
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        std::cerr << dlerror() << "\n";
        return 1;
    }
    link_map* map = nullptr;
    dlinfo(library, RTLD_DI_LINKMAP, &map);
    Range stubs = stub_section(argv[1]);
    stubs.begin += map->l_addr;
    stubs.end += map->l_addr;
    auto last_reason = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "_ZN7verbena11last_reasonEv"));
    if (!last_reason) {
        std::cerr << "verbena::last_reason is not exported\n";
        return 1;
    }

    std::ifstream list(argv[2]);
    int problems = 0, lines = 0;
    for (std::string line; std::getline(list, line); lines++) {
        std::istringstream fields(line);
        std::string name, node, binding, convention, error;
        fields >> name >> node >> binding >> convention >> error;
        std::cout << name << '@' << node << ' ' << binding << ": ";
        void* address = dlvsym(library, name.c_str(), node.c_str());
        if (!address) {
            std::cout << "MISSING\n";
            problems++;
        } else if (convention.starts_with("data:")) {
            std::cout << "data\n";
        } else if (!stubs.contains(address)) {
            std::cout << "implemented\n";
        } else {
            std::string problem = wrong_answer(address, convention, error == "ENOSYS" ? ENOSYS : EOPNOTSUPP);
            if (problem.empty() && convention != "quiet" && !*last_reason()) problem = "recorded no reason";
            if (problem.empty())
                std::cout << (convention == "quiet" ? "does nothing" : "answers " + error) << "\n";
            else
                std::cout << "WRONG: " << problem << "\n", problems++;
        }
    }
    if (!lines) std::cerr << argv[2] << " is empty\n";
    return problems || !lines;
}
