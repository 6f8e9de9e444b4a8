/// How many of `nodes` make a majority: `nodes / 2 + 1`.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
