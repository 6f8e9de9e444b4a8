//! Services that are sound, and three that people begin with: no trial may raise an alarm.

use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get as read, post, put};
use axum::{Json, Router};
use lock_axum::testing::{Trial, get, post as request};
use rusqlite::Connection;
use tokio::task::spawn_blocking;

/// A SQLite database that is used on blocking threads.
#[derive(Clone)]
struct Sqlite(Arc<Mutex<Connection>>);

impl Sqlite {
    fn open(schema: &str) -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(schema).unwrap();
        Self(Arc::new(Mutex::new(connection)))
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StatusCode> {
        let connection = Arc::clone(&self.0);
        let done = spawn_blocking(move || work(&connection.lock().unwrap())).await.unwrap();
        done.map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => StatusCode::CONFLICT,
            _ => StatusCode::NOT_FOUND,
        })
    }

    async fn count(&self, table: &'static str) -> i64 {
        self.run(move |db| db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))).await.unwrap()
    }
}

#[tokio::test]
async fn a_list_of_todos() {
    type Todo = (i64, String, bool);

    async fn create(State(db): State<Sqlite>) -> Result<Json<i64>, StatusCode> {
        let insert = "INSERT INTO todos (text, done) VALUES ('write a test', FALSE) RETURNING id";
        db.run(move |db| db.query_row(insert, [], |row| row.get(0))).await.map(Json)
    }
    async fn complete(State(db): State<Sqlite>, Path(id): Path<i64>) -> Result<StatusCode, StatusCode> {
        let changed = db.run(move |db| db.execute("UPDATE todos SET done = TRUE WHERE id = ?", [id])).await?;
        Ok(if changed == 0 { StatusCode::NOT_FOUND } else { StatusCode::NO_CONTENT })
    }
    async fn list(State(db): State<Sqlite>) -> Result<Json<Vec<Todo>>, StatusCode> {
        db.run(|db| {
            let mut todos = db.prepare("SELECT id, text, done FROM todos")?;
            todos.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .await
        .map(Json)
    }
    const SCHEMA: &str = "CREATE TABLE todos (id INTEGER PRIMARY KEY, text TEXT, done BOOLEAN)";

    let trial = Trial::new(|| async { Sqlite::open(SCHEMA) })
        .service(|_, db| {
            let routes =
                Router::new().route("/todos", post(create).get(list)).route("/todos/{id}/done", post(complete));
            routes.with_state(db)
        })
        .request(|| request("/todos"))
        .request(|| request("/todos/1/done"))
        .request(|| get("/todos"));
    let outcome = trial
        .check(|db, answers| async move {
            let created = i64::from(answers[0].is_success() || answers[0].is_hung_up());
            db.count("todos").await <= created && answers[2].status() != StatusCode::INTERNAL_SERVER_ERROR
        })
        .run()
        .await;
    outcome.assert_holds();
    assert!(!outcome.takes_locks && outcome.unlocked.is_none());
}

#[tokio::test]
async fn a_store_of_keys_and_values() {
    async fn set(State(db): State<Sqlite>, Path((key, value)): Path<(String, String)>) -> Result<(), StatusCode> {
        let upsert = "INSERT INTO pairs VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        db.run(move |db| db.execute(upsert, [key, value])).await.map(drop)
    }
    async fn find(State(db): State<Sqlite>, Path(key): Path<String>) -> Result<String, StatusCode> {
        db.run(move |db| db.query_row("SELECT value FROM pairs WHERE key = ?", [key], |row| row.get(0))).await
    }
    Trial::new(|| async { Sqlite::open("CREATE TABLE pairs (key TEXT PRIMARY KEY, value TEXT)") })
        .service(|_, db| Router::new().route("/{key}", read(find)).route("/{key}/{value}", put(set)).with_state(db))
        .request(|| axum::http::Request::put("/color/red").body(axum::body::Body::empty()).unwrap())
        .request(|| axum::http::Request::put("/color/blue").body(axum::body::Body::empty()).unwrap())
        .check(|db, _| async move { db.count("pairs").await == 1 })
        .run()
        .await
        .assert_holds();
}

#[tokio::test]
async fn users_whose_names_are_unique() {
    async fn register(State(db): State<Sqlite>, Path(name): Path<String>) -> Result<StatusCode, StatusCode> {
        // What the form says is friendlier than the constraint, which decides.
        let taken = "SELECT count(*) FROM users WHERE name = ?";
        let of_name = name.clone();
        let count: i64 = db.run(move |db| db.query_row(taken, [of_name], |row| row.get(0))).await?;
        if count > 0 {
            return Err(StatusCode::UNPROCESSABLE_ENTITY);
        }
        // A blocking thread may be done before its result is asked for: then the request makes no step for it.
        tokio::task::yield_now().await;
        db.run(move |db| db.execute("INSERT INTO users (name) VALUES (?)", [name])).await?;
        Ok(StatusCode::CREATED)
    }
    fn trial(schema: &'static str) -> Trial<Sqlite> {
        Trial::new(move || async move { Sqlite::open(schema) })
            .service(|_, db| Router::new().route("/users/{name}", post(register)).with_state(db))
            .request(|| request("/users/ada"))
            .request(|| request("/users/ada"))
            .check(|db, _| async move { db.count("users").await == 1 })
    }
    trial("CREATE TABLE users (name TEXT UNIQUE)").run().await.assert_holds();
    let outcome = trial("CREATE TABLE users (name TEXT)").run().await;
    assert!(outcome.to_string().contains("No request takes a lock"), "{outcome}");
}
