use lock_axum::LockManager;

fn one() {
    _ = LockManager::builder().redis("redis://10.0.0.1").connect_lazy();
    //                               ^^^^^^^^^^^^^^^^^^ a list of strings is needed here, and `&str` is none: write `[…]` around a single one
}

fn owned(url: String) {
    _ = LockManager::builder().redis(&url);
    //                               ^^^^ a list of strings is needed here
    _ = LockManager::builder().redis(url);
    //                               ^^^ a list of strings is needed here
}

fn sentinel() {
    _ = LockManager::builder().sentinel("10.0.0.1:26379", "mymaster");
    //                                  ^^^^^^^^^^^^^^^^ a list of strings is needed here, and `&str` is none
}

fn numbers() {
    _ = LockManager::builder().redis([6379_u16, 6380]);
    //                               ^^^^^^^^^^^^^^^^ a list of strings is needed here
}

fn locks() {
    _ = LockManager::in_memory().lock_all("stock").read("user");
    //                                    ^^^^^^^ a list of strings is needed here, and `&str` is none
    //                                                  ^^^^^^ a list of strings is needed here, and `&str` is none
}

fn main() {
    one();
    owned(String::new());
    sentinel();
    numbers();
    locks();
}
