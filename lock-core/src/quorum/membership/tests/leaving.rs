//! Addresses that lead to the nodes of another set.

use super::*;

/// Two sets of these nodes, the second of which was formed again once. All addresses lead to the first one.
fn two_sets(names: &[&'static str]) -> (World, World) {
    let (mut here, mut elsewhere) = (World::new(names), World::new(names));
    elsewhere.nodes.values_mut().for_each(|node| node.run = 50);
    elsewhere.next = 1000;
    here.settle(&mut Client::new(names));
    let mut client = Client::new(names);
    elsewhere.settle(&mut client);
    names.iter().for_each(|name| elsewhere.forget(name));
    elsewhere.settle(&mut client);
    assert_eq!(client.generation(), 2);
    for world in [&mut here, &mut elsewhere] {
        world.pass(100);
        world.settle(&mut client);
    }
    (here, elsewhere)
}

fn a_client_waits_a_quarantine_after_each_change(names: &[&'static str]) {
    let (mut here, mut elsewhere) = two_sets(names);
    let (votes, waits) = ("a".repeat(names.len()), "q".repeat(names.len()));
    let mut client = Client::new(names);
    here.settle(&mut client);
    assert_eq!(client.standings(), votes);
    for _ in 0..4 {
        std::mem::swap(&mut here.nodes, &mut elsewhere.nodes);
        here.settle(&mut client);
        assert_eq!(client.standings(), waits, "locks of the set that it left may be held");
        here.pass(59);
        here.settle(&mut client);
        assert_eq!(client.standings(), waits);
        here.pass(5);
        here.settle(&mut client);
        assert_eq!(client.standings(), votes);
    }
}

// promise: membership
#[test]
fn addresses_that_lead_elsewhere_and_back_cost_a_quarantine_each_time() {
    a_client_waits_a_quarantine_after_each_change(&["1"]);
    a_client_waits_a_quarantine_after_each_change(&LIST);
}

// promise: membership
#[test]
fn a_client_that_leaves_a_set_twice_waits_for_both() {
    let (mut here, mut elsewhere) = two_sets(&LIST);
    let mut client = Client::new(&LIST);
    here.settle(&mut client);
    for _ in 0..2 {
        std::mem::swap(&mut here.nodes, &mut elsewhere.nodes);
        here.pass(10);
        here.settle(&mut client);
    }
    here.pass(55);
    here.settle(&mut client);
    assert_eq!(client.standings(), "qqq", "others may hold locks of the set that it saw for a moment");
    here.pass(10);
    here.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

// promise: membership
#[test]
fn a_client_that_left_a_set_looks_again_as_soon_as_its_quarantine_is_over() {
    let (mut here, mut elsewhere) = two_sets(&["1"]);
    let mut client = Client::new(&["1"]);
    here.settle(&mut client);
    std::mem::swap(&mut here.nodes, &mut elsewhere.nodes);
    here.settle(&mut client);
    let Standing::Quarantined(left) = client.membership.standing(0, client.now) else {
        panic!("{}", client.standings())
    };
    assert_eq!(client.membership.next_quarantine_end(0, client.now), Some(left));
    client.now += left;
    assert_eq!((client.standings().as_str(), client.membership.next_quarantine_end(0, client.now)), ("a", None));
}

// promise: quarantine
#[test]
fn a_quarantine_is_not_said_to_be_over_before_that_of_the_set_that_the_client_left() {
    let (mut here, mut elsewhere) = two_sets(&LIST);
    let mut client = Client::new(&LIST);
    here.settle(&mut client);
    elsewhere.forget(LIST[2]);
    elsewhere.settle(&mut Client::new(&LIST));
    elsewhere.pass(50);
    std::mem::swap(&mut here.nodes, &mut elsewhere.nodes);
    here.settle(&mut client);
    for node in 0..LIST.len() {
        let standing = client.membership.standing(node, client.now);
        assert!(matches!(standing, Standing::Quarantined(left) if left > Duration::from_secs(60)), "{standing:?}");
    }
}
