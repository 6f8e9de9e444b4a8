use lock_axum::distributed_lock;

#[distributed_lock(resource = "export", permits = 0)]
//                                                ^ `permits` must be between 1 and 100, got 0
async fn none() {}

#[distributed_lock(resource = "export", permits = 101)]
//                                                ^^^ `permits` must be between 1 and 100, got 101
async fn too_many() {}

#[distributed_lock(resource = "export", permits = "3")]
//                                                ^^^ `permits` must be a number between 1 and 100
async fn not_a_number() {}

#[distributed_lock(resource = "export", permits = [1, 2])]
//                                                ^^^^^^ `permits` must be a number between 1 and 100
async fn several_at_once() {}

#[distributed_lock(resource = "export", permits)]
//                                      ^^^^^^^ missing value of `permits`: write `permits = 3`
async fn missing() {}

#[distributed_lock(resource = ["export", "report"], permits = 3)]
//                                                  ^^^^^^^ `permits` cannot be combined with a list of resources: a set has locks only, because it is not known which slot a permit will have; write one `resource`, or remove `permits`
async fn in_a_set() {}

#[distributed_lock(resource = "export", permits = 3, mode = "read")]
//                                                   ^^^^ `mode` cannot be combined with `permits`: each permit has one holder; remove one of the two
async fn with_a_mode() {}

fn main() {}
