//! New sets.

use super::*;

#[test]
fn a_set_is_formed_by_all_nodes_of_the_list_and_needs_no_quarantine() {
    let mut world = World::new(&LIST);
    let mut client = Client::new(&LIST);
    world.node("3").up = false;
    world.settle(&mut client);
    assert_eq!(client.standings(), "---");
    assert!(client.reason(0).contains("3 cannot be used"), "{}", client.reason(0));
    world.node("3").up = true;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_set_can_be_formed_with_a_node_missing_and_then_all_sit_out_a_quarantine() {
    let mut world = World::new(&LIST);
    let mut client = Client::with(&LIST, |config| config.form_with_missing = true);
    world.node("3").up = false;
    world.settle(&mut client);
    assert_eq!(client.standings(), "qq-");
    world.pass(70);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aa-");
    world.node("3").up = true;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "it takes the vacant seat");
}

#[test]
fn a_manager_that_knew_only_one_member_forms_the_set_again_when_all_are_gone() {
    let (mut world, _) = formed();
    let mut client = Client::new(&LIST);
    world.node("2").up = false;
    world.node("3").up = false;
    world.look(&mut client);
    for name in LIST {
        world.node(name).up = true;
        world.forget(name);
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
}

#[test]
fn a_fresh_manager_follows_the_set_that_is_in_use() {
    let (mut world, _) = formed();
    let one_set = world.node("1").record.clone().unwrap();
    for name in LIST {
        world.forget(name);
    }
    let mut client = Client::new(&LIST);
    world.settle(&mut client);
    world.node("1").record = Some(NodeRecord { run_id: "1-2".into(), ..one_set });
    for list in [LIST, ["3", "2", "1"]] {
        let mut fresh = Client::new(&list);
        world.look(&mut fresh);
        assert_eq!(
            fresh.membership.roster().map(|roster| roster.set),
            client.membership.roster().map(|roster| roster.set)
        );
    }
}

#[test]
fn a_manager_that_knew_the_set_never_takes_it_for_new() {
    let (mut world, mut client) = formed();
    for name in LIST {
        world.forget(name);
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
    assert_eq!(world.node("1").fence, 77, "the clock is the fallback");
    world.pass(70);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_manager_that_holds_locks_of_a_forgotten_set_waits_until_they_have_ended() {
    let (mut world, mut client) = formed();
    for name in LIST {
        world.forget(name);
    }
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("aaa", 1), "it cannot know");
    world.settle(&mut client);
    assert_eq!(client.standings(), "qqq");
}

#[test]
fn a_fresh_manager_does_not_form_a_set_around_a_member_that_remembers() {
    let (mut world, _) = formed();
    world.forget("2");
    world.forget("3");
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("a--", 1));
    let mut told = Client::with(&LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!((told.standings().as_str(), told.generation()), ("qqq", 2));
}

#[test]
fn a_set_whose_nodes_all_restarted_is_formed_again_after_a_quarantine() {
    let (mut world, _) = formed();
    world.node("2").fence = 900;
    LIST.iter().for_each(|name| world.node(name).run += 1);
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!((fresh.standings().as_str(), fresh.generation()), ("qqq", 2));
    assert_eq!(world.node("1").fence, 900);
}

#[test]
fn two_lists_that_differ_in_a_node_do_not_form_two_sets() {
    let mut world = World::new(&["1", "2", "3", "4"]);
    let (mut one, mut other) = (Client::new(&LIST), Client::with(&NEW_LIST, |_| {}));
    other.membership.proposals = proposal::Proposals::new(99);
    for _ in 0..60 {
        world.look(&mut one);
        world.step(&mut one);
        world.look(&mut other);
        world.step(&mut other);
    }
    let sets: Vec<_> =
        [&one, &other].iter().filter_map(|client| client.membership.roster().map(|roster| roster.set)).collect();
    assert!(sets.windows(2).all(|pair| pair[0] == pair[1]), "{sets:?}");
}

#[test]
fn a_node_of_the_same_name_is_not_the_one_that_accepted_the_first_roster() {
    let mut world = World::new(&["1", "2", "3", "4"]);
    let mut one = Client::new(&LIST);
    // Ids, promises and acceptances, but no installs.
    for _ in 0..3 {
        world.look(&mut one);
        assert!(world.step(&mut one));
    }
    let mut other = Client::with(&NEW_LIST, |config| config.names[2] = "3".into());
    other.membership.proposals = proposal::Proposals::new(99);
    world.settle(&mut other);
    assert!(other.membership.roster().is_none());
    assert!(other.reason(0).contains("a set is being formed with 1, 2, 3"), "{}", other.reason(0));
    world.settle(&mut one);
    assert_eq!(one.standings(), "aaa");
    world.settle(&mut other);
    assert_eq!((other.standings().as_str(), other.generation()), ("aaq", 2), "it is replaced by a change");
}

#[test]
fn a_set_whose_node_forgot_while_it_was_formed_is_formed_again_when_somebody_says_so() {
    let mut world = World::new(&LIST);
    let mut client = Client::new(&LIST);
    for _ in 0..3 {
        world.look(&mut client);
        assert!(world.step(&mut client));
    }
    world.forget("2");
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    assert_eq!(fresh.standings(), "---");
    let mut told = Client::with(&LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!((told.standings().as_str(), told.generation()), ("qqq", 2));
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
}

#[test]
fn a_node_with_a_record_of_another_format_is_refused_and_left_alone() {
    let mut world = World::new(&LIST);
    let mut client = Client::new(&LIST);
    world.look(&mut client);
    let seen = Inspection { record: FoundRecord::OtherFormat(7), ..world.inspect("1").unwrap() };
    client.membership.observe(0, Some(seen), Duration::ZERO);
    assert!(matches!(client.membership.standing(0, Duration::ZERO), Standing::Refused(_)));
    assert!(world.step(&mut client), "the others get ids");
    assert_eq!(world.node("1").record, None);
}

#[test]
fn no_set_is_formed_without_a_node_that_was_not_tried() {
    let (mut world, _) = formed();
    world.forget("1");
    world.forget("2");
    let mut client = Client::with(&LIST, |config| {
        (config.form_with_missing, config.max_ttl) = (true, Duration::from_secs(1));
    });
    for steps in [true, false] {
        for (node, name) in LIST.iter().enumerate().take(2) {
            client.membership.observe(node, world.inspect(name), Duration::ZERO);
        }
        assert_eq!(world.step(&mut client), steps, "they get ids, and no more");
    }
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("qqq", 2));
    assert_eq!(client.membership.roster().unwrap().quarantine_ttl, MAX_TTL, "that of the set which was lost");
}

#[test]
fn a_manager_that_missed_a_set_forms_the_next_one_as_a_newer_one() {
    let (list, mut world) = (["1"], World::new(&["1"]));
    let (mut client, mut absent) = (Client::new(&list), Client::new(&list));
    world.settle(&mut client);
    world.settle(&mut absent);
    world.node("1").run += 1;
    world.settle(&mut client);
    assert_eq!((client.generation(), absent.generation()), (2, 1));
    world.node("1").run += 1;
    world.settle(&mut absent);
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), absent.standings().as_str()), ("q", "q"), "{}", client.reason(0));
    assert_eq!((client.generation(), absent.generation()), (3, 3));
}

/// A set of five masters that lost three of them, and the set that was formed over it, of three new ones and the two that are left.
fn formed_over() -> (World, Client, Client) {
    let mut world = World::new(&["1", "2", "3", "4", "5", "6", "7", "8"]);
    let mut old = Client::new(&["1", "2", "3", "4", "5"]);
    world.settle(&mut old);
    for name in LIST {
        world.forget(name);
        world.node(name).up = false;
    }
    let mut told = Client::with(&["6", "7", "8", "4", "5"], |config| config.form_with_missing = true);
    world.settle(&mut told);
    world.pass(70);
    world.settle(&mut told);
    assert_eq!((told.standings().as_str(), told.generation()), ("aaaaa", 2));
    LIST.iter().for_each(|name| world.node(name).up = true);
    (world, old, told)
}

// promise: membership
#[test]
fn a_set_that_another_one_was_formed_over_is_not_formed_again() {
    let (mut world, mut old, mut told) = formed_over();
    world.settle(&mut old);
    assert_eq!(old.standings(), "-----");
    for node in 0..5 {
        assert!(old.reason(node).contains("its members are 6, 7, 8, 4, 5: name those"), "{}", old.reason(node));
    }
    // It stays so when nothing tells of the other set any more.
    world.forget("4");
    world.forget("5");
    world.settle(&mut old);
    assert!(old.reason(0).contains("its members are 6, 7, 8, 4, 5"), "{}", old.reason(0));
    LIST.iter().for_each(|name| assert!(world.node(name).record.is_none(), "nothing is written"));
    world.settle(&mut told);
    assert_eq!(told.generation(), 4, "those that forgot get their seats back");
}

#[test]
fn the_next_set_names_all_that_it_was_formed_over() {
    let (mut world, old, told) = formed_over();
    ["6", "7", "8"].iter().for_each(|name| world.forget(name));
    let mut again = Client::with(&["1", "2", "3", "4", "5"], |config| config.form_with_missing = true);
    world.settle(&mut again);
    let set = |client: &Client| client.membership.roster().unwrap().set;
    assert_eq!(again.membership.roster().unwrap().formed_over, [set(&told), set(&old)]);
}

// promise: membership
#[test]
fn a_member_of_another_set_that_may_live_elsewhere_is_not_taken() {
    let (mut world, mut client) = formed();
    world.nodes.extend(World::new(&["5"]).nodes);
    LIST.iter().for_each(|name| world.forget(name));
    let mut others = Client::new(&["3", "4", "5"]);
    world.settle(&mut others);
    assert_eq!(others.standings(), "aaa");
    world.settle(&mut client);
    assert_eq!(client.standings(), "---");
    world.settle(&mut others);
    assert_eq!(others.standings(), "aaa");
}

#[test]
fn a_passive_client_counts_the_votes_of_a_set_and_writes_nothing() {
    let (mut world, mut client) = formed();
    let passive = |names: &[&'static str]| Client::with(names, |config| config.passive = true);
    let (mut looks, mut elsewhere) = (passive(&LIST), passive(&["4"]));
    world.settle(&mut looks);
    assert_eq!(looks.standings(), "aaa");
    world.settle(&mut elsewhere);
    assert!(elsewhere.membership.roster().is_none() && world.node("4").record.is_none());
    world.forget("3");
    world.settle(&mut looks);
    assert_eq!((looks.standings().as_str(), world.node("3").record.is_none()), ("aa-", true));
    world.settle(&mut client);
    world.settle(&mut looks);
    assert_eq!((looks.standings().as_str(), looks.generation()), ("aaq", 2));
}
