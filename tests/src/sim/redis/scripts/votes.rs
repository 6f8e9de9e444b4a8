use super::lua::{Broken, float, number, whole};
use super::{CONFIRMED, Call, GONE, GRANTED, HELD, KEPT, NOT_OWNER, QUARANTINED, REFUSED, RELEASED, Voted};
use crate::sim::redis::flaw::Flaw;

/// 2^53 - 1: beyond it, Lua can not tell a number from the next.
const LARGEST_FENCE: f64 = 9_007_199_254_740_991.0;

/// A ballot that has not the words of its kind.
fn half() -> Broken {
    Broken::new("ERR half a ballot")
}

impl Call<'_> {
    pub(super) fn acquire(&mut self, at: usize, words: &[Vec<u8>]) -> Voted {
        let [owner, ttl, hint, last, since] = words else { return Err(half()) };
        let quarantine = self.quarantine.map_or_else(|| self.pttl(1), Ok)?;
        self.quarantine = Some(quarantine);
        if quarantine != -2 {
            return Ok((QUARANTINED, float(quarantine)));
        }

        let (Some(mut given), Some(_)) = (number(last), number(ttl)) else {
            return Err(Broken::new("acquire: not a number"));
        };

        let [holder, fence, queue, turn] = self.mget([at, at + 1, at + 2, at + 3])?;
        let fence = fence.unwrap_or_else(|| b"0".to_vec());
        if holder.as_ref() == Some(owner) {
            return Ok((GRANTED, number(&fence).ok_or(not_a_fence())?));
        }
        if holder.is_some() || queue.is_some() || turn.is_some() {
            let free_in = self.kept_from(at, holder.is_some(), queue.as_deref(), turn.as_deref(), number(since))?;
            if let Some(free_in) = free_in {
                return Ok((HELD, float(free_in)));
            }
        }

        let mut written = last.clone();
        if hint.len() < fence.len() || (hint.len() == fence.len() && *hint <= fence) {
            let line = "number = tonumber(fence) + 1 + (number - tonumber(hint))";
            let arithmetic = || Broken::on_line(line, "attempt to perform arithmetic on a nil value");
            let (fence, hint) = (number(&fence).ok_or_else(arithmetic)?, number(hint).ok_or_else(arithmetic)?);
            given = fence + 1.0 + (given - hint);
            written = whole(given).into_bytes();
        }
        if given > LARGEST_FENCE {
            return Err(Broken::new("acquire: the fence is used up"));
        }
        if self.flaw == Some(Flaw::RepeatsFences) {
            (given, written) = (1.0, b"1".to_vec());
        }
        self.set(at + 1, &written, self.retention()?)?;
        if !self.set_new(at, owner, ttl)? {
            return Ok((HELD, float(self.pttl(at)?)));
        }
        if (queue.is_some() || turn.is_some()) && since != b"0" {
            self.end_turn(at, queue.as_deref(), turn.is_some())?;
        }
        Ok((GRANTED, given))
    }

    pub(super) fn confirm(&mut self, at: usize, words: &[Vec<u8>]) -> Voted {
        let [owner, wanted] = words else { return Err(half()) };
        let Some(wanted) = number(wanted) else { return Err(Broken::new("confirm: not a number")) };

        let fence = number(self.get(at + 1)?.as_deref().unwrap_or(b"0"));
        if self.get(at)?.as_ref() != Some(owner) {
            return Ok((REFUSED, fence.ok_or(not_a_fence())?));
        }
        match fence {
            None => return Err(Broken::on_line("or fence > number", "attempt to compare number with nil")),
            Some(fence) if fence > wanted => return Ok((REFUSED, fence)),
            Some(_) => {}
        }
        self.set(at + 1, whole(wanted).as_bytes(), self.retention()?)?;
        Ok((CONFIRMED, 0.0))
    }

    pub(super) fn extend(&mut self, at: usize, words: &[Vec<u8>]) -> Voted {
        let [owner, ttl] = words else { return Err(half()) };
        let Some(life) = number(ttl) else { return Err(Broken::new("extend: not a number")) };

        if self.get(at)?.as_ref() != Some(owner) {
            return Ok((GONE, 0.0));
        }
        if float(self.pttl(at)?) < life {
            self.expire(at, ttl)?;
        }
        Ok((KEPT, 0.0))
    }

    pub(super) fn replace(&mut self, at: usize, words: &[Vec<u8>]) -> Voted {
        let [owner, ttl, token] = words else { return Err(half()) };
        let (Some(_), Some(token)) = (number(ttl), number(token)) else {
            return Err(Broken::new("replace: not a number"));
        };

        if let Some(holder) = self.get(at)? {
            return Ok((if holder == *owner { KEPT } else { GONE }, 0.0));
        }

        let Some(fence) = number(self.get(at + 1)?.as_deref().unwrap_or(b"0")) else {
            let error = "bad argument #1 to 'max' (number expected, got nil)";
            return Err(Broken::on_line("math.max(fence, number)", error));
        };
        self.set(at + 1, whole(fence.max(token)).as_bytes(), self.retention()?)?;
        self.set(at, owner, ttl)?;
        Ok((KEPT, 0.0))
    }

    pub(super) fn release(&mut self, at: usize, words: &[Vec<u8>]) -> Voted {
        let [owner, place] = words else { return Err(half()) };
        let [holder, queue, turn] = self.mget([at, at + 1, at + 2])?;
        let anyone = self.flaw == Some(Flaw::ReleasesForAnyone) && holder.is_some();
        let ours = holder.as_ref() == Some(owner) || anyone;
        if ours && self.flaw != Some(Flaw::IgnoresReleases) {
            self.delete(at)?;
        }
        if ours && self.flaw == Some(Flaw::ForgetsFences) {
            let fence = [b"{", self.key(at)?, b"}:fence"].concat();
            self.store.delete(&fence, self.now);
        }
        let waits = !place.is_empty() && place != b"leave";
        if queue.is_some() || turn.is_some() || waits {
            self.move_on(at, ours || holder.is_none(), queue.as_deref(), turn, place)?;
        }
        Ok((if ours { RELEASED } else { NOT_OWNER }, 0.0))
    }
}

fn not_a_fence() -> Broken {
    Broken::new("the fence is not a number")
}
