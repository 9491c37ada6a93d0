// Which members of an epoll set are to be looked at, in turn, and a descriptor (the bell) that is readable
// while there are some, except while a thread is at it that looks, or rings when it leaves.
//
// Thread safety: all calls. Its lock is the last one taken: who wakes an entry holds a socket's.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>

#include "rsocket/sleeper.h"

namespace verbena::rsocket {

class Agenda {
   public:
    // A member: registered with its socket, it puts itself down here whenever something changes there.
    class Entry : public Waker {
       public:
        explicit Entry(Agenda& agenda) : agenda_(agenda), place_{this} {}
        void wake() override { agenda_.put(*this); }
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

       protected:
        virtual ~Entry() { agenda_.remove(*this); }  // nobody wakes it any more

       private:
        friend Agenda;
        Agenda& agenda_;
        // Its link, here while it is not in the queue: putting it down allocates nothing.
        std::list<Entry*> place_;
        const std::list<Entry*>::iterator link_ = place_.begin();
        bool queued_ = false;
    };

    // Makes the bell. An errno.
    [[nodiscard]] int prepare() { return bell_.prepare(); }
    int bell() const { return bell_.fd(); }

    // Behind the others, and the bell rings.
    void put(Entry& entry);
    // The same without the bell, by a thread that takes afterwards, or calls ring().
    void put_quietly(Entry& entry);
    // Nobody's any more: what happens from now on puts it down again. nullptr: there is none.
    Entry* take();
    std::size_t size() const;

    // The bell is silent until the next put() or ring(). `heard`: it rings, whatever is noted of it (a forked
    // child has the same bell).
    void hush(bool heard);
    // It rings if there is something to look at.
    void ring();

   private:
    void queue(Entry& entry);
    void unqueue(Entry& entry);
    void remove(Entry& entry);

    mutable std::mutex mutex_;
    std::list<Entry*> queue_;
    Sleeper bell_;
    bool ringing_ = false;
};

}  // namespace verbena::rsocket
