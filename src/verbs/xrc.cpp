// XRC domains, and XRC_RECV queue pairs with several handles. Domains that are opened with a file are one
// domain for all handles on that file's inode within the process; a receive queue of another process cannot
// be reached, since its memory cannot.

#include "verbs/xrc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <tuple>

#include "base/call_fault.h"
#include "base/immortal.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/own_file.h"
#include "base/reason.h"
#include "base/uncancelled.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/qp.h"

namespace verbena::verbs {
namespace {

using FileKey = std::tuple<std::uint32_t, dev_t, ino_t>;  // the device's index, and the inode

// Keeps the inode of a file, so that none that is made after the file's removal gets its number. By a
// descriptor that only names it (O_PATH), if it can be had: a duplicate of the program's would hold a flock()
// beyond the program's close(), and its end would release the program's other locks.
class KeptFile {
   public:
    explicit KeptFile(int fd) : fd_(name(fd)), identity_(FileIdentity::of(fd_)) {}
    ~KeptFile() {
        if (age_.is_of_now() && identity_.is(fd_)) uncancelled::close(fd_);
    }
    KeptFile(const KeptFile&) = delete;
    KeptFile& operator=(const KeptFile&) = delete;

    bool is_kept() const { return fd_ >= 0; }  // if not: errno

   private:
    static int name(int fd) {
        char path[32];
        std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        const int named = out_of_the_way(open(path, O_PATH | O_CLOEXEC));
        return named >= 0 ? named : duplicate_out_of_the_way(fd);
    }

    const int fd_;
    const FileIdentity identity_;
    const FilesAge age_;
};

struct FileDomain {
    FileDomain(std::uint32_t number, int fd) : domain(number), file(fd) {}

    const std::uint32_t domain;
    std::uint32_t handles = 1;
    KeptFile file;
};

std::mutex domains_lock;  // and of the targets
std::uint32_t last_domain = 0;

std::map<FileKey, FileDomain>& file_domains() {
    static Immortal<std::map<FileKey, FileDomain>> domains;
    return *domains;
}

std::map<std::uint32_t, std::shared_ptr<XrcTarget>>& targets() {
    static Immortal<std::map<std::uint32_t, std::shared_ptr<XrcTarget>>> by_number;
    return *by_number;
}

// The file's domain, or with `fd` -1 one of its own. 0, or an errno with the reason.
int join_domain(const FileKey& key, int fd, int flags, std::uint32_t& domain) {
    std::lock_guard guard(domains_lock);
    if (fd == -1) {
        domain = ++last_domain;
        return 0;
    }
    auto& domains = file_domains();
    auto found = domains.find(key);
    if (found != domains.end()) {
        if (flags & O_EXCL)
            return fail(EINVAL, "an XRC domain belongs to this file already, and oflags has O_EXCL");
        found->second.handles++;
    } else {
        if (!(flags & O_CREAT))
            return fail(EAGAIN, "no XRC domain belongs to this file yet, and oflags has no O_CREAT");
        found = domains.try_emplace(key, last_domain + 1, fd).first;
        if (!found->second.file.is_kept()) {
            const int error = errno;
            domains.erase(found);
            return fail(error, "no descriptor to keep file %d by: %s", fd, std::strerror(error));
        }
        last_domain++;
    }
    domain = found->second.domain;
    return 0;
}

void leave_file_domain(std::uint32_t domain) {
    auto& domains = file_domains();
    for (auto entry = domains.begin(); entry != domains.end(); ++entry) {
        if (entry->second.domain != domain) continue;
        if (--entry->second.handles == 0) domains.erase(entry);
        return;
    }
}

}  // namespace

void XrcTarget::enroll(QueuePair& qp) {
    std::lock_guard guard(domains_lock);
    std::lock_guard lock(qp.target->lock_);
    qp.target->handles_.insert(&qp);
    targets()[qp.qp->number()] = qp.target;
}

// 0, or EINVAL with the reason. The handle keeps the target, and so the queue pair, from now on.
int XrcTarget::join(std::uint32_t number, QueuePair& qp, ibv_qp_state& state) {
    std::lock_guard guard(domains_lock);
    const auto found = targets().find(number);
    if (found == targets().end() || found->second->domain_ != qp.xrcd->domain)
        return fail(EINVAL, "no XRC_RECV queue pair of this domain has the number 0x%06x", number);
    qp.target = found->second;
    std::lock_guard lock(qp.target->lock_);
    QueuePair& other = **qp.target->handles_.begin();
    qp.qp = other.qp;
    qp.created = other.created;
    state = other.base()->state;
    qp.target->handles_.insert(&qp);
    return 0;
}

bool XrcTarget::leave(QueuePair& qp) {
    std::lock_guard guard(domains_lock);
    std::lock_guard lock(qp.target->lock_);
    qp.target->handles_.erase(&qp);
    if (!qp.target->handles_.empty()) return false;
    targets().erase(qp.qp->number());
    return true;
}

void XrcTarget::qp_event(transport::QueuePair& qp, transport::QpEvent event) {
    std::lock_guard lock(lock_);
    for (QueuePair* handle : handles_) handle->qp_event(qp, event);
}

ibv_qp* open_qp(ibv_context* handle, ibv_qp_open_attr* attr) {
    Call call("ibv_open_qp");
    if (const Fault fault{"ibv_open_qp"}) return fault.null();
    Context* context = Context::of(handle);
    if (!is_usable(*context)) return nullptr;
    constexpr std::uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if (attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT))
        return fail_null(EOPNOTSUPP, "comp_mask is 0x%x, which has unknown bits", attr->comp_mask);
    if ((attr->comp_mask & kNeeded) != kNeeded)
        return fail_null(EINVAL, "comp_mask is 0x%x; number, XRC domain and type are needed",
                         attr->comp_mask);
    if (attr->qp_type != IBV_QPT_XRC_RECV)
        return fail_null(EINVAL, "qp_type is %d; only XRC_RECV queue pairs can be opened", attr->qp_type);
    if (!attr->xrcd || attr->xrcd->context != handle)
        return fail_null(EINVAL, "the XRC domain belongs to another context");
    return unless_out_of_memory([&]() -> ibv_qp* {
        auto qp = std::make_unique<QueuePair>();
        qp->context = context;
        qp->xrcd = Xrcd::of(attr->xrcd);
        ibv_qp_state state;
        if (int error = XrcTarget::join(attr->qp_num, *qp, state)) {
            errno = error;
            return nullptr;
        }
        QueuePair& made = *qp.release();
        made.created.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : nullptr;
        show_or_destroy(made, nullptr);
        made.base()->state = state;
        return made.base();
    });
}

ibv_xrcd* open_xrcd(ibv_context* handle, ibv_xrcd_init_attr* attr) {
    Call call("ibv_open_xrcd");
    const NoCancellation whole;
    if (const Fault fault{"ibv_open_xrcd"}) return fault.null();
    Context* context = Context::of(handle);
    if (!is_usable(*context)) return nullptr;
    constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask & ~kNeeded)
        return fail_null(EOPNOTSUPP, "comp_mask bits 0x%x are not supported", attr->comp_mask & ~kNeeded);
    if (attr->comp_mask != kNeeded)
        return fail_null(EINVAL, "comp_mask is 0x%x; fd and oflags are both needed", attr->comp_mask);
    if (attr->oflags & ~(O_CREAT | O_EXCL))
        return fail_null(EINVAL, "oflags is 0x%x; O_CREAT and O_EXCL are known", attr->oflags);
    struct stat file {};
    if (attr->fd != -1 && fstat(attr->fd, &file) != 0)
        return fail_null(EBADF, "fd is %d, which is no open file", attr->fd);
    std::unique_ptr<Xrcd> xrcd(new (std::nothrow) Xrcd);
    if (!xrcd) return fail_null(ENOMEM, "no memory");
    xrcd->base.context = handle;
    const int error = unless_out_of_memory([&] {
        {
            std::lock_guard lock(context->objects_lock);
            context->xrc_domains.insert(xrcd.get());
        }
        return join_domain({context->device->index, file.st_dev, file.st_ino}, attr->fd, attr->oflags,
                           xrcd->domain);
    });
    if (error) {
        std::lock_guard lock(context->objects_lock);
        context->xrc_domains.erase(xrcd.get());
        errno = error;
        return nullptr;
    }
    return &xrcd.release()->base;
}

void leave_domain(Xrcd& xrcd) {
    {
        Context* context = Context::of(xrcd.base.context);
        std::lock_guard lock(context->objects_lock);
        context->xrc_domains.erase(&xrcd);
    }
    {
        std::lock_guard guard(domains_lock);
        leave_file_domain(xrcd.domain);
    }
    delete &xrcd;
}

int close_xrcd(ibv_xrcd* handle) {
    Call call("ibv_close_xrcd");
    const NoCancellation whole;
    if (const Fault fault{"ibv_close_xrcd"}) return fault.error();
    Xrcd* xrcd = Xrcd::of(handle);
    if (std::uint32_t users = xrcd->users)
        return fail(EBUSY, "%u queue pairs and receive queues still use it", users);
    leave_domain(*xrcd);
    return 0;
}

}  // namespace verbena::verbs
