use axum::Router;
use axum::routing::post;
use lock_axum::{Hold, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "all", adopt = "yes")]
//                                           ^^^^^ `adopt` must be `true` or `false`
async fn not_a_boolean() {}

#[distributed_lock(resource = "all", adopt)]
//                                   ^^^^^ missing value of `adopt`: write `adopt = true`
async fn without_a_value() {}

#[distributed_lock(resource = "all", hold = "session", max_hold = "1h", adopt = true)]
//                                                                      ^^^^^ `adopt` cannot be combined with `hold = "session"`: the answer tells the holder that the work under its lock is done
async fn session(hold: Hold) {
    drop(hold);
}

#[distributed_lock(resource = ["a", "b"], adopt = true)]
//                                        ^^^^^ `adopt` cannot be combined with several resources: a delegation is of one lock
async fn several() {}

#[distributed_lock(resource = "all", manager = locks, adopt = true)]
//                                                    ^^^^^ `adopt` cannot be combined with `manager`: a guarded function has no request that could carry a delegation
async fn function(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _: Router = Router::new().route("/", post(not_a_boolean).get(without_a_value).put(session).delete(several));
    let _ = async |locks: LockManager| function(&locks).await;
}
