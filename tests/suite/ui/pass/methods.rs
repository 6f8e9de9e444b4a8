//! Methods with every kind of receiver, with the manager in a field.

use std::sync::Arc;

use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[derive(Debug)]
#[allow(dead_code)]
enum ShopError {
    Lock(LockError),
    Parse(std::num::ParseIntError),
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for ShopError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Parse(error)
    }
}

type Result<T = (), E = ShopError> = std::result::Result<T, E>;

struct Shop {
    locks: LockManager,
    name: String,
    sold: u32,
}

impl Shop {
    fn locks(&self) -> LockManager {
        self.locks.clone()
    }

    /// `?` converts into the declared error, and the receiver's fields can be part of the resource.
    #[distributed_lock(resource = "{self.name}:{sku}", ttl = "5s", manager = self.locks)]
    pub async fn shared(&self, sku: &str, quantity: &str) -> Result<u32> {
        let quantity: u32 = quantity.parse()?;
        let _ = Lease::current();
        Ok(self.sold + quantity)
    }

    #[distributed_lock(resource = "{sku}", manager = self.locks())]
    async fn exclusive(&mut self, sku: String) -> Result {
        self.sold += std::future::ready(1).await;
        drop(sku);
        Ok(())
    }

    #[distributed_lock(resource = "shop", manager = self.locks)]
    async fn by_value(mut self) -> Result<Shop> {
        self.sold += 1;
        Ok(self)
    }

    #[distributed_lock(resource = "shop", manager = self.locks)]
    async fn boxed(self: Box<Self>) -> Result<String> {
        Ok(self.name)
    }

    #[distributed_lock(resource = "shop", manager = self.locks)]
    async fn counted(self: Arc<Self>) -> Result<u32> {
        Ok(self.sold)
    }

    #[distributed_lock(resource = "shop", manager = self.locks)]
    async unsafe fn not_safe(&self, byte: *const u8) -> Result<u8> {
        Ok(unsafe { *byte })
    }

    #[distributed_lock(resource = "shop", manager = locks)]
    async fn associated(locks: &LockManager) -> Result {
        Err("x".parse::<u8>().unwrap_err())?;
        Ok(())
    }
}

fn assert_send<T: Send>(future: T) -> T {
    future
}

fn main() {
    let _ = async |mut shop: Shop| {
        assert_send(shop.shared("a", "1")).await?;
        assert_send(shop.exclusive("a".to_owned())).await?;
        Shop::associated(&shop.locks).await?;
        unsafe { shop.not_safe(&raw const *shop.name.as_bytes().first().unwrap()) }.await?;
        let shop = shop.by_value().await?;
        let shop = Arc::new(shop);
        let sold = shop.clone().counted().await?;
        if let Some(shop) = Arc::into_inner(shop) {
            Box::new(shop).boxed().await?;
        }
        Ok::<_, ShopError>(sold)
    };
}
