// Copies what another processor reads next, past this one's cache. A plain store needs the line first, and
// where the two processors share no cache it is fetched from the reader's, who had it last, one after the
// other: 64 KiB messages pass through a ring of 1 MiB with 2 to 4 GB/s like that, and with 17 by memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

// As memcpy(3). What the caller stores later is seen later, as usual.
void streaming_copy(std::uint8_t* to, const void* from, std::size_t length);

}  // namespace verbena
