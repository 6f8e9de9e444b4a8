//! Changes of the roster.

use super::*;

#[test]
fn a_list_with_another_node_replaces_the_member_that_is_not_in_it() {
    let (mut world, mut old) = formed();
    let mut new = Client::new(&NEW_LIST);
    world.settle(&mut new);
    assert_eq!((new.standings().as_str(), new.generation()), ("aaq", 2));
    world.look(&mut old);
    assert!(old.reason(2).contains("since generation 2"), "before it has installed the roster: {}", old.reason(2));
    world.settle(&mut old);
    assert_eq!((old.standings().as_str(), old.generation()), ("aa-", 2));
    assert!(old.reason(2).contains("since generation 2"), "{}", old.reason(2));
    world.pass(70);
    world.settle(&mut new);
    world.settle(&mut old);
    assert_eq!(
        (new.standings().as_str(), old.standings().as_str()),
        ("aaa", "aa-"),
        "the old list changes nothing back"
    );
    world.node("3").run += 1;
    world.settle(&mut old);
    assert_eq!((old.standings().as_str(), old.generation()), ("aa-", 2), "nor when the node that left restarts");
}

#[test]
fn a_blank_node_does_not_take_the_seat_of_one_that_is_only_down() {
    let names = ["1", "2", "3", "4", "5"];
    let mut world = World::new(&names);
    world.settle(&mut Client::new(&names));
    let [seat_2, seat_5] = [1, 4].map(|node| world.node(names[node]).record.clone().unwrap().member);
    world.node("2").up = false;
    world.forget("5");
    // The list has other names for the same nodes.
    let mut other = Client::with(&names, |config| config.names.iter_mut().for_each(|name| name.push_str(".example")));
    world.settle(&mut other);
    assert_eq!((other.standings().as_str(), other.generation()), ("a-aa-", 1), "it cannot tell whose seat is free");
    let mut client = Client::new(&names);
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("a-aaq", 2));
    let roster = client.membership.roster().unwrap();
    assert!(roster.contains(seat_2) && !roster.contains(seat_5));
}

#[test]
fn a_client_that_reads_old_records_does_not_use_a_ballot_twice() {
    let (mut world, mut client) = formed();
    world.forget("3");
    let old: Vec<_> = (0..2).map(|node| client.membership.nodes[node].seen.clone()).collect();
    let ballots = |world: &World| LIST.map(|name| world.nodes[name].record.as_ref().and_then(|record| record.promised));
    // An id, and promises.
    for _ in 0..2 {
        world.look(&mut client);
        assert!(world.step(&mut client));
    }
    let before = ballots(&world);
    // Replies that were on their way since before the promises, while nobody needs a seat.
    client.membership.observe(2, None, Duration::ZERO);
    old.into_iter().enumerate().for_each(|(node, seen)| client.membership.observe(node, seen, Duration::ZERO));
    assert!(!world.step(&mut client));
    // Another memory needs one.
    world.forget("3");
    let seen = |client: &mut Client, world: &World, node: usize| {
        let mut looked = Client::new(&LIST);
        world.look(&mut looked);
        client.membership.observe(node, looked.membership.nodes[node].seen.clone(), Duration::ZERO);
    };
    seen(&mut client, &world, 2);
    world.step(&mut client);
    seen(&mut client, &world, 2);
    world.step(&mut client);
    world.look(&mut client);
    world.step(&mut client);
    let after = ballots(&world);
    assert!(before[0].is_some() && before[0] < after[0], "{before:?} {after:?}");
}

#[test]
fn a_longer_max_ttl_is_a_change_and_a_shorter_one_is_not() {
    let (mut world, mut client) = formed();
    let mut longer = Client::with(&LIST, |config| config.max_ttl = 2 * MAX_TTL);
    world.settle(&mut longer);
    assert_eq!((longer.standings().as_str(), longer.generation()), ("aaa", 2));
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaa", 2));
    client.membership.request(Change::LowerMaxTtl(MAX_TTL));
    world.settle(&mut client);
    let roster = client.membership.roster().unwrap();
    assert_eq!((roster.max_ttl, roster.quarantine_ttl), (MAX_TTL, 2 * MAX_TTL), "joins sit out the old one");
    client.membership.request(Change::LowerQuarantine { generation: 2 });
    world.settle(&mut client);
    assert_eq!(client.generation(), 3, "it may have been raised since");
    client.membership.request(Change::LowerQuarantine { generation: 3 });
    world.settle(&mut client);
    assert_eq!(client.membership.roster().unwrap().quarantine_ttl, MAX_TTL);
}

#[test]
fn masters_are_replaced_one_after_another() {
    let mut world = World::new(&["1", "2", "3", "4", "5", "6"]);
    let lists = [["1", "2", "3"], ["1", "2", "4"], ["1", "5", "4"], ["6", "5", "4"]];
    for (generation, list) in (1..).zip(lists) {
        let mut client = Client::new(&list);
        world.settle(&mut client);
        world.pass(70);
        world.settle(&mut client);
        assert_eq!((client.standings().as_str(), client.generation()), ("aaa", generation), "{list:?}");
    }
}
