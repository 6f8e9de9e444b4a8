/// How many of `nodes` make a majority: `nodes / 2 + 1`. Of all nodes, never of those that replied: any two majorities share a node, and on
/// that one exclusion and the order of tokens rest.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
