// What the first example of the page shows, for the others.

async fn try_out(handler: fn() -> MethodRouter<Db>) -> Outcome {
    Trial::new(|| async { Db::open() })
        .service(move |locks, db| Router::new().route("/deduct", handler()).layer(Extension(locks)).with_state(db))
        .request(|| request("/deduct"))
        .request(|| request("/deduct"))
        .check(|db, _answers| async move {
            let sum = "SELECT quantity + orders FROM stock";
            db.transaction(|tx| Ok(tx.query_row(sum, [], |row| row.get::<_, i64>(0))?)).await.unwrap() == 100
        })
        .run()
        .await
}
