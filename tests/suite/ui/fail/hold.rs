use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Hold, Hold as Taken, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "all", hold = "session", max_hold = "1h")]
//                                   ^^^^ `hold = "session"` needs a parameter `Hold` that takes the lock along: add `hold: Hold`, and run the session in it, as in `ws.on_upgrade(move |socket| hold.run(async |lease| …))`
async fn nobody_takes_it() {}

#[distributed_lock(resource = "all", hold = "session")]
//                                   ^^^^ `hold = "session"` needs `max_hold`: add how long a session may last, for example `max_hold = "1h"`; the manager's `max_hold`, 60 s by default, is for requests and would cut sessions
async fn without_an_end(hold: Hold) {
    drop(hold);
}

#[distributed_lock(resource = "all")]
async fn without_a_session(hold: Hold) {
    //                           ^^^^ a parameter `Hold` needs `hold = "session"` and `max_hold`: add both to the attribute, or remove the parameter
    drop(hold);
}

#[distributed_lock(resource = "all", hold = "body")]
async fn until_the_body_ends(hold: lock_axum::Hold) {
    //                             ^^^^^^^^^^^^^^^ a parameter `Hold` needs `hold = "session"` and `max_hold`
    drop(hold);
}

#[distributed_lock(resource = "all", hold = "session", max_hold = "1h")]
async fn twice(first: Hold, second: Option<Hold>) {
    //                              ^^^^^^^^^^^^ a handler can have only one parameter `Hold`: remove this one
    drop((first, second));
}

#[distributed_lock(resource = "all", hold = "sesion", max_hold = "1h")]
//                                          ^^^^^^^^ `hold` must be "body" or "session"; did you mean `session`?
async fn misspelt(hold: Hold) {
    drop(hold);
}

#[distributed_lock(resource = "all", hold = "session", manager = locks)]
//                                   ^^^^ `hold` cannot be combined with `manager`: a guarded function holds its lock until it returns: it has no response and no session
async fn function(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "{hold}", hold = "session", max_hold = "1h")]
//                            ^^^^^^^^ `{hold}` cannot be part of `resource`: it has no value before the lock is acquired
async fn of_itself(hold: Hold) {
    drop(hold);
}

#[distributed_lock(resource = "{sku}")]
async fn under_another_name(Path(sku): Path<String>, hold: Taken) {
    //                                                     ^^^^^ the lock does not recognize this parameter as a `Lease`, `FencingToken` or `Hold`
    drop((sku, hold));
}

#[distributed_lock(resource = "all", hold = "session", max_hold = "1h")]
async fn borrowed(hold: &Hold) {
    //                  ^^^^^ a handler cannot borrow its parameters, which axum makes for it: take `Hold`
    let _ = hold;
}

fn main() {
    let _: Router = Router::new()
        .route("/a", post(nobody_takes_it).get(without_an_end).put(without_a_session).delete(twice))
        .route("/b", post(until_the_body_ends).get(misspelt).put(of_itself).delete(borrowed))
        .route("/c/{sku}", post(under_another_name));
    let _ = async |locks: LockManager| function(&locks).await;
}
