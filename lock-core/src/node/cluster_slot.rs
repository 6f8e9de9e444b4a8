//! Slots of a Redis Cluster: which one a key is in, and the prefix that puts all keys of a shard into one.

/// How many slots a cluster has.
const SLOTS: u16 = 1 << 14;
/// How far the slot of a shard may be from its place.
const TOLERANCE: u16 = SLOTS / 64;

/// The slot of a key: of what stands between its first `{` and the next `}`, unless that is nothing.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// The prefix of all keys of a shard, with a hash tag in front: `{shop:#0}`, `{shop:#3.17}`. What stands in the tag after the last `#`
/// has none itself, so no two prefixes and shards have the same.
///
/// The slot of the first shard is where its name leads. The others are spread evenly from there, in such an order that half of the
/// shards are spread evenly, too: then they are on all servers of a cluster that has as many slots on each. The number behind the dot is
/// the first that leads close to the place.
///
/// Every process and every version must compute the same.
pub(super) fn prefix_of_shard(prefix: &str, shard: u32) -> String {
    let first = format!("{prefix}#0");
    let place = SLOTS / 64 * u16::try_from(shard.reverse_bits() >> (u32::BITS - 6)).unwrap_or_default();
    let wanted = crc16(&first).wrapping_add(place) % SLOTS;
    let is_close = |tag: &String| (crc16(tag).wrapping_sub(wanted) % SLOTS) < TOLERANCE;
    let tag = match shard {
        0 => first,
        _ => (0..u16::MAX).map(|salt| format!("{prefix}#{shard}.{salt}")).find(is_close).unwrap_or(first),
    };
    format!("{{{tag}}}")
}

/// CRC-16/XMODEM, as the cluster computes it.
fn crc16(key: &str) -> u16 {
    let shift = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    key.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| shift(crc)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_slot_is_what_a_cluster_says() {
        // As `CLUSTER KEYSLOT` answers.
        for (key, slot) in [("123456789", 12739), ("foo", 12182), ("{user1000}.following", 3443), ("foo{}{bar}", 8363)]
        {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{{bar}"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
    }

    #[test]
    fn all_keys_of_a_shard_are_in_one_slot_and_no_two_shards_have_one_prefix() {
        let mut prefixes = HashSet::new();
        for prefix in ["", "lock:", "shop:", "shop:#1", "shop:#"] {
            for shard in 0..64 {
                let of_shard = prefix_of_shard(prefix, shard);
                for key in ["stock:42", "{node}", "{node}:wakeups:1f", "{stock:42}:queue", "export{2}", "{}:test:1"] {
                    assert_eq!(slot_of(&format!("{of_shard}{key}")), slot_of(&of_shard));
                }
                assert!(prefixes.insert(of_shard));
            }
        }
        assert_eq!(prefix_of_shard("shop:", 0), "{shop:#0}", "whatever number of shards there is");
    }

    #[test]
    fn however_many_shards_there_are_they_are_spread_over_the_slots() {
        for prefix in ["lock:", "shop:", "another one:"] {
            for shards in [2_u16, 4, 8, 16, 32, 64] {
                let mut slots: Vec<u16> =
                    (0..u32::from(shards)).map(|shard| slot_of(&prefix_of_shard(prefix, shard))).collect();
                slots.sort_unstable();
                slots.push(slots[0] + SLOTS);
                let fair = SLOTS / shards;
                let gaps = slots.windows(2).map(|pair| pair[1] - pair[0]);
                assert!(gaps.clone().all(|gap| gap.abs_diff(fair) <= TOLERANCE), "{prefix} {shards}: {slots:?}");
            }
        }
    }

    #[test]
    fn a_shard_is_in_the_same_slot_in_every_version() {
        let prefixes = [1, 2, 63].map(|shard| prefix_of_shard("shop:", shard));
        assert_eq!(prefixes, ["{shop:#1.15}", "{shop:#2.5}", "{shop:#63.48}"]);
    }
}
