// embedding/cpu/index_probe.h - compares the 16 tags of a group at once. CPU only.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/memory/prefetch.h"
#include "embedding/cpu/key_index.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace emblem {

// Some of the 16 slots of a group; one bit per slot, kBits apart.
class SlotSet {
 public:
#if defined(__ARM_NEON)
  static constexpr int kBits = 4;  // per lane after NEON's narrowing shift
#else
  static constexpr int kBits = 1;
#endif
  explicit SlotSet(uint64_t bits) : bits_(bits) {}
  explicit operator bool() const { return bits_ != 0; }
  int first() const { return std::countr_zero(bits_) / kBits; }
  void drop_first() { bits_ &= bits_ - 1; }
  int count() const { return std::popcount(bits_); }

 private:
  uint64_t bits_;
};

class TagGroup {
 public:
#if defined(__ARM_NEON)
  explicit TagGroup(const uint8_t* tags) : tags_(vld1q_u8(tags)) {}
  SlotSet equal(uint8_t tag) const {
    const uint8x16_t same = vceqq_u8(tags_, vdupq_n_u8(tag));
    const uint8x8_t narrow = vshrn_n_u16(vreinterpretq_u16_u8(same), 4);
    return SlotSet(vget_lane_u64(vreinterpret_u64_u8(narrow), 0) & 0x1111111111111111ull);
  }

 private:
  uint8x16_t tags_;
#elif defined(__SSE2__)
  explicit TagGroup(const uint8_t* tags)
      : tags_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(tags))) {}
  SlotSet equal(uint8_t tag) const {
    const __m128i same = _mm_cmpeq_epi8(tags_, _mm_set1_epi8(static_cast<char>(tag)));
    return SlotSet(static_cast<uint32_t>(_mm_movemask_epi8(same)));
  }

 private:
  __m128i tags_;
#else
  explicit TagGroup(const uint8_t* tags) { std::memcpy(tags_, tags, kGroupSlots); }
  SlotSet equal(uint8_t tag) const {
    uint64_t bits = 0;
    for (int slot = 0; slot < kGroupSlots; ++slot) bits |= uint64_t{tags_[slot] == tag} << slot;
    return SlotSet(bits);
  }

 private:
  uint8_t tags_[kGroupSlots];
#endif

 public:
  SlotSet empty() const { return equal(kEmptyTag); }
};

inline constexpr uint64_t kNoSlot = ~uint64_t{0};

// The slot that holds `key`, or kNoSlot.
inline uint64_t probe(const IndexRef& ref, uint64_t hash, int64_t key) {
  const uint8_t tag = IndexRef::tag(hash);
  for (uint64_t group = ref.home(hash);; group = ref.next(group)) {
    const TagGroup tags(ref.tags + group * kGroupSlots);
    for (SlotSet same = tags.equal(tag); same; same.drop_first()) {
      const uint64_t slot = group * kGroupSlots + same.first();
      if (ref.slots[slot].key() == key) return slot;
    }
    if (tags.empty()) return kNoSlot;
  }
}

inline constexpr int kKeysInFlight = 32;  // with overlapping cache misses
inline constexpr uint32_t kNoValue = 0xffffffffu;

enum class Probe { kAll, kMissing };

// values[i] = the value of keys[i] or kNoValue, for at most kKeysInFlight keys; with
// Probe::kMissing only where it is kNoValue so far.
template <Probe kWhich>
void probe_block(const IndexRef& ref, const int64_t* keys, uint32_t* values, int count) {
  uint64_t hashes[kKeysInFlight], slots[kKeysInFlight];
  for (int i = 0; i < count; ++i) {
    hashes[i] = IndexRef::hash(keys[i]);
    prefetch(ref.tags + ref.home(hashes[i]) * kGroupSlots);
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t first = ref.home(hashes[i]) * kGroupSlots;
    const TagGroup tags(ref.tags + first);
    const SlotSet same = tags.equal(IndexRef::tag(hashes[i]));
    // A group with free slots and without such a tag: the key is absent.
    slots[i] = same ? first + same.first() : tags.empty() ? kNoSlot : first;
    if (same) prefetch(ref.slots + slots[i]);
  }
  for (int i = 0; i < count; ++i) {
    if (kWhich == Probe::kMissing && values[i] != kNoValue) continue;
    values[i] = kNoValue;
    if (slots[i] == kNoSlot) continue;
    if (ref.tags[slots[i]] != IndexRef::tag(hashes[i]) || ref.slots[slots[i]].key() != keys[i]) {
      slots[i] = probe(ref, hashes[i], keys[i]);
    }
    if (slots[i] != kNoSlot) values[i] = ref.slots[slots[i]].value;
  }
}

}  // namespace emblem
