// Which file, and so which program, an id belongs to: requests about other programs' ids, and about ids of a
// daemon before this one, are refused here.
#pragma once

#include <unordered_map>

#include "cm/types.h"

namespace verbena::daemon {

class Owners {
   public:
    void created(cm::IdNumber id, cm::FileNumber file) { ids_[id] = {file, 0}; }
    // A connection request made `child`; until it is accepted or rejected it dies with its listener.
    void requested(cm::IdNumber child, cm::IdNumber listener, cm::FileNumber file) {
        ids_[child] = {file, listener};
    }
    void taken_over(cm::IdNumber id) {
        if (auto found = ids_.find(id); found != ids_.end()) found->second.listener = 0;
    }
    void moved(cm::IdNumber id, cm::FileNumber file) {
        if (auto found = ids_.find(id); found != ids_.end()) found->second.file = file;
    }
    void destroyed(cm::IdNumber id) {
        ids_.erase(id);
        std::erase_if(ids_, [id](const auto& entry) { return entry.second.listener == id; });
    }
    void closed(cm::FileNumber file) {
        std::erase_if(ids_, [file](const auto& entry) { return entry.second.file == file; });
    }
    // 0: no such id.
    cm::FileNumber file(cm::IdNumber id) const {
        auto found = ids_.find(id);
        return found == ids_.end() ? 0 : found->second.file;
    }
    std::size_t count() const { return ids_.size(); }

   private:
    struct Entry {
        cm::FileNumber file;
        cm::IdNumber listener;
    };
    std::unordered_map<cm::IdNumber, Entry> ids_;
};

}  // namespace verbena::daemon
