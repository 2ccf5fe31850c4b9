#include "embedding/cpu/key_index.h"

#include <algorithm>
#include <cstring>

#include "core/memory/prefetch.h"
#include "embedding/cpu/index_probe.h"

namespace emblem {
namespace {

constexpr uint64_t kMostPerGroup = 14;  // keys in a group of 16, on average: more makes probes long
constexpr uint64_t kGroupsMovedAtOnce = 4;

}  // namespace

KeyIndex::Slots::Slots(uint64_t groups) : memory(groups * kGroupSlots * (1 + sizeof(IndexSlot))) {
  ref.tags = reinterpret_cast<uint8_t*>(memory.data());
  ref.slots = reinterpret_cast<IndexSlot*>(memory.data() + groups * kGroupSlots);
  ref.groups = groups;
}

KeyIndex::KeyIndex(int64_t expected_keys)
    : now_(static_cast<uint64_t>(std::max<int64_t>(0, expected_keys)) / kMostPerGroup + 1) {}

uint32_t KeyIndex::find(int64_t key) const {
  const uint64_t hash = IndexRef::hash(key);
  if (const uint64_t slot = probe(now_.ref, hash, key); slot != kNoSlot)
    return now_.ref.slots[slot].value;
  if (!growing()) return kNone;
  const uint64_t slot = probe(old_.ref, hash, key);
  return slot != kNoSlot ? old_.ref.slots[slot].value : kNone;
}

void KeyIndex::find(std::span<const int64_t> keys, std::span<uint32_t> values) const {
  for (size_t begin = 0; begin < keys.size(); begin += kKeysInFlight) {
    const int count = static_cast<int>(std::min<size_t>(kKeysInFlight, keys.size() - begin));
    probe_block<Probe::kAll>(now_.ref, keys.data() + begin, values.data() + begin, count);
    if (growing())
      probe_block<Probe::kMissing>(old_.ref, keys.data() + begin, values.data() + begin, count);
  }
}

void KeyIndex::prefetch(int64_t key) const {
  const uint64_t first = now_.ref.home(IndexRef::hash(key)) * kGroupSlots;
  emblem::prefetch(now_.ref.tags + first);
  emblem::prefetch(now_.ref.slots + first);
}

void KeyIndex::make_room() {
  if (static_cast<uint64_t>(size()) + 1 > now_.ref.groups * kMostPerGroup) grow();
}

uint32_t KeyIndex::insert(int64_t key, uint32_t value) {
  if (const uint32_t found = find(key); found != kNone) return found;
  make_room();
  if (growing()) move_groups(kGroupsMovedAtOnce);
  put(now_, key, value);
  return value;
}

void KeyIndex::assign(int64_t key, uint32_t value) {
  const uint64_t hash = IndexRef::hash(key);
  for (const Slots* slots : {&now_, &old_}) {
    if (slots->ref.groups == 0) continue;
    if (const uint64_t slot = probe(slots->ref, hash, key); slot != kNoSlot) {
      slots->ref.slots[slot].value = value;
      return;
    }
  }
  insert(key, value);
}

void KeyIndex::put(Slots& slots, int64_t key, uint32_t value) {
  const IndexRef& ref = slots.ref;
  const uint64_t hash = IndexRef::hash(key);
  for (uint64_t group = ref.home(hash);; group = ref.next(group)) {
    const SlotSet empty = TagGroup(ref.tags + group * kGroupSlots).empty();
    if (!empty) continue;
    const uint64_t slot = group * kGroupSlots + empty.first();
    ref.tags[slot] = IndexRef::tag(hash);
    ref.slots[slot].set(key, value);
    ++slots.used;
    return;
  }
}

void KeyIndex::grow() {
  // The last growth has long been finished: it moves kGroupsMovedAtOnce groups an insertion, and
  // the new array takes kMostPerGroup insertions for every group of the old one.
  Slots larger(now_.ref.groups * 2);
  old_ = std::move(now_);
  now_ = std::move(larger);
  next_group_ = 0;
}

void KeyIndex::move_groups(uint64_t groups) {
  const uint64_t end = std::min(old_.ref.groups, next_group_ + groups);
  for (uint64_t slot = next_group_ * kGroupSlots; slot < end * kGroupSlots; ++slot) {
    if (old_.ref.tags[slot] < kUsedTag) continue;
    put(now_, old_.ref.slots[slot].key(), old_.ref.slots[slot].value);
    old_.ref.tags[slot] = kErasedTag;
    --old_.used;
  }
  moved_groups_ += end - next_group_;
  next_group_ = end;
  if (next_group_ == old_.ref.groups) old_ = Slots();
}

bool KeyIndex::erase(int64_t key) {
  const uint64_t hash = IndexRef::hash(key);
  if (const uint64_t slot = probe(now_.ref, hash, key); slot != kNoSlot) {
    close_gap(now_, slot);
    return true;
  }
  if (!growing()) return false;
  const uint64_t slot = probe(old_.ref, hash, key);
  if (slot == kNoSlot) return false;
  old_.ref.tags[slot] = kErasedTag;
  --old_.used;
  return true;
}

// Frees `slot`. If its group was full, a key that passed it may now be unreachable: the nearest
// such key moves into the slot, which leaves a gap further on, and so forth.
void KeyIndex::close_gap(Slots& slots, uint64_t slot) {
  const IndexRef& ref = slots.ref;
  --slots.used;
  uint64_t gap_group = slot / kGroupSlots;
  bool reached_end = static_cast<bool>(TagGroup(ref.tags + gap_group * kGroupSlots).empty());
  uint64_t distance = 0;  // from the gap's group to `group`
  for (uint64_t group = gap_group; !reached_end;) {
    group = ref.next(group);
    ++distance;
    reached_end = static_cast<bool>(TagGroup(ref.tags + group * kGroupSlots).empty());
    for (uint64_t other = group * kGroupSlots; other < (group + 1) * kGroupSlots; ++other) {
      if (ref.tags[other] == kEmptyTag) continue;
      const uint64_t home = ref.home(IndexRef::hash(ref.slots[other].key()));
      const uint64_t passed = group >= home ? group - home : group + ref.groups - home;
      if (passed < distance) continue;
      ref.tags[slot] = ref.tags[other];
      ref.slots[slot] = ref.slots[other];
      slot = other;
      gap_group = group;
      distance = 0;
      break;
    }
  }
  ref.tags[slot] = kEmptyTag;
}

void KeyIndex::clear() {
  now_ = Slots(1);
  old_ = Slots();
}

void KeyIndex::forget() {
  if (size() == 0 && !growing()) return;
  old_ = Slots();
  std::memset(now_.ref.tags, 0, now_.ref.groups * kGroupSlots);
  now_.used = 0;
}

}  // namespace emblem
