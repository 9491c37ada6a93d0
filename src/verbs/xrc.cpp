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
#include <mutex>
#include <new>
#include <tuple>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
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
    static auto& domains = *new std::map<FileKey, FileDomain>;
    return domains;
}

std::map<std::uint32_t, std::shared_ptr<XrcTarget>>& targets() {
    static auto& by_number = *new std::map<std::uint32_t, std::shared_ptr<XrcTarget>>;
    return by_number;
}

// 0, or an errno with the reason.
int join_file_domain(const FileKey& key, int fd, int flags, std::uint32_t& domain) {
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
    auto* qp = new (std::nothrow) QueuePair;
    if (!qp) return fail_null(ENOMEM, "no memory");
    std::lock_guard guard(domains_lock);
    const auto found = targets().find(attr->qp_num);
    if (found == targets().end() || found->second->domain_ != Xrcd::of(attr->xrcd)->domain) {
        delete qp;
        return fail_null(EINVAL, "no XRC_RECV queue pair of this domain has the number 0x%06x", attr->qp_num);
    }
    qp->context = context;
    qp->target = found->second;
    qp->xrcd = Xrcd::of(attr->xrcd);
    std::lock_guard lock(qp->target->lock_);
    const QueuePair& other = **qp->target->handles_.begin();
    qp->qp = other.qp;
    qp->created = other.created;
    qp->created.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : nullptr;
    show_queue_pair(*qp, nullptr);
    qp->base()->state = (*qp->target->handles_.begin())->base()->state;
    qp->target->handles_.insert(qp);
    return qp->base();
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
    auto* xrcd = new (std::nothrow) Xrcd;
    if (!xrcd) return fail_null(ENOMEM, "no memory");
    xrcd->base.context = handle;
    std::lock_guard guard(domains_lock);
    if (attr->fd == -1) {
        xrcd->domain = ++last_domain;
    } else if (int error = join_file_domain({context->device->index, file.st_dev, file.st_ino}, attr->fd,
                                            attr->oflags, xrcd->domain)) {
        delete xrcd;
        errno = error;
        return nullptr;
    }
    std::lock_guard lock(context->objects_lock);
    context->xrc_domains.insert(xrcd);
    return &xrcd->base;
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
