//! Delegations that are refused: what was forged, is over, or is for another resource or service.

use std::time::Duration;

use lock_core::delegation::AdoptError;
use tokio::time::{Instant, advance};

use super::delegation::{TTL, two_services};

/// A text like this one, with another character somewhere.
fn changed(text: &str, at: usize) -> String {
    let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
    format!("{}{other}{}", &text[..at], &text[at + 1..])
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_forged_delegation_is_refused() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().create().unwrap();
    let text = delegation.as_str();
    for at in 0..text.len() {
        let adopted = other.adopt(&changed(text, at), "stock:42").await;
        assert!(adopted.is_err(), "{at}: {adopted:?}");
    }
    for text in ["", "not one", &text[1..], &text.repeat(2), &"A".repeat(100_000)] {
        assert!(matches!(other.adopt(text, "stock:42").await, Err(AdoptError::Malformed)), "{text}");
    }
    let _held = holder.lock("stock:43").acquire().await.unwrap();
    assert!(other.adopt(text, "stock:42").await.is_ok(), "the true one");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn an_expired_delegation_is_refused() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(TTL / 10).create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "stock:42").await.unwrap();
    let began = Instant::now();
    adopted.lost().await;
    assert!(began.elapsed() <= TTL / 10);
    assert!(guard.is_valid());
    advance(Duration::from_millis(1)).await;
    let late = other.adopt(delegation.as_str(), "stock:42").await;
    assert!(matches!(late, Err(AdoptError::Expired { .. })), "{late:?}");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_foreign_delegation_is_refused() {
    let (_nodes, holder, _other) = two_services().await;
    let (_elsewhere, _, stranger) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let refused = stranger.adopt(guard.delegate().create().unwrap().as_str(), "stock:42").await;
    assert!(matches!(refused, Err(AdoptError::OtherSet { .. })), "{refused:?}");
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_delegation_of_another_resource_is_refused_without_asking_a_master() {
    let (nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let permit = holder.permits("stock:42", 2).acquire().await.unwrap();
    let (delegation, of_permit) = (guard.delegate().create().unwrap(), permit.delegate().create().unwrap());
    assert!(other.adopt(delegation.as_str(), "stock:42").await.is_ok());
    assert!(other.adopt(of_permit.as_str(), String::from("stock:42")).await.is_ok(), "whatever slot it is");
    let of_slot = other.adopt(of_permit.as_str(), permit.resource()).await;
    assert!(of_slot.is_ok(), "by the name that its lease has: {of_slot:?}");
    nodes.iter().for_each(|node| node.set_down(true));
    let other_slot = format!("stock:42{{{}}}", 1 - permit.slot().unwrap());
    for (delegation, resource) in [
        (&delegation, "stock:43"),
        (&delegation, ""),
        (&delegation, permit.resource()),
        (&of_permit, "stock:4"),
        (&of_permit, &other_slot),
    ] {
        let refused = other.adopt(delegation.as_str(), resource).await;
        assert!(matches!(&refused, Err(AdoptError::OtherResource { ours, .. }) if ours == resource), "{refused:?}");
    }
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_delegation_for_another_audience_is_refused() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().audience("shipping").create().unwrap();
    for service in [&holder, &other] {
        let refused = service.adopt(delegation.as_str(), "stock:42").await;
        assert!(matches!(refused, Err(AdoptError::OtherAudience { .. })), "{refused:?}");
    }
}

// promise: delegation
#[tokio::test(start_paused = true)]
async fn a_delegation_replayed_after_a_re_grant_is_refused() {
    let (_nodes, holder, other) = two_services().await;
    let guard = holder.lock("stock:42").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(TTL * 60).create().unwrap();
    let text = delegation.as_str().to_owned();
    delegation.around(async { Ok::<_, ()>(()) }).await.unwrap();
    assert!(guard.release().await.unwrap());
    let free = other.adopt(&text, "stock:42").await;
    assert!(matches!(free, Err(AdoptError::Refused { .. })), "{free:?}");
    let text_of_free = free.unwrap_err().to_string();
    assert!(text_of_free.contains(": free") && !text_of_free.contains("held by"), "{text_of_free}");
    let _next = holder.lock("stock:42").acquire().await.unwrap();
    let held_by_the_next = other.adopt(&text, "stock:42").await;
    assert!(matches!(held_by_the_next, Err(AdoptError::Refused { .. })), "{held_by_the_next:?}");
}
