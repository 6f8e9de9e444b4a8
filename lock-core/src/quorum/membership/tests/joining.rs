//! Nodes that forgot, and quarantines.

use super::*;

#[test]
fn a_node_that_forgot_is_replaced_by_itself_and_sits_out_a_quarantine() {
    let (mut world, mut client) = formed();
    world.node("2").fence = 500;
    world.forget("3");
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 2));
    assert_eq!(world.node("3").fence, 500, "the floor");
    world.pass(59);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq");
    world.pass(3);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa");
}

#[test]
fn a_node_that_restarted_with_its_record_has_forgotten_whatever_it_says() {
    let (mut world, mut client) = formed();
    world.node("3").run += 1;
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 2));
}

#[test]
fn a_single_durable_node_needs_no_quarantine_if_it_is_trusted() {
    let mut world = World::new(&["1"]);
    let mut trusting = Client::with(&["1"], |config| config.assume_durable = true);
    world.settle(&mut trusting);
    world.node("1").run += 1;
    world.settle(&mut trusting);
    assert_eq!(trusting.standings(), "a");
    let mut careful = Client::new(&["1"]);
    world.node("1").run += 1;
    world.settle(&mut careful);
    assert_eq!(careful.standings(), "q");
}

#[test]
fn a_change_that_lost_its_floor_can_be_ended_by_forming_the_set_again() {
    let (mut world, _) = formed();
    let mut new = Client::new(&NEW_LIST);
    for _ in 0..20 {
        world.look(&mut new);
        if new.generation() == 2 {
            break;
        }
        world.step(&mut new);
    }
    world.forget("2");
    world.settle(&mut new);
    assert_eq!(new.standings().matches('a').count(), 1, "one of the members of the roster before is not enough");
    let mut told = Client::with(&NEW_LIST, |config| config.form_with_missing = true);
    world.settle(&mut told);
    assert_eq!(told.standings(), "qqq");
}

#[test]
fn a_node_that_refuses_its_record_keeps_no_other_from_being_replaced() {
    let names = ["1", "2", "3", "4", "5"];
    let (mut world, mut client) = (World::new(&names), Client::new(&names));
    world.settle(&mut client);
    world.forget("4");
    world.forget("5");
    client.membership.pause(3, true);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa-q");
    client.membership.pause(3, false);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaaqq");
}

#[test]
fn one_wrong_clock_ends_no_quarantine() {
    let (mut world, mut client) = formed();
    world.forget("3");
    world.settle(&mut client);
    world.node("3").clock += 3600 * SECOND;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "its own");
    world.node("3").clock -= 3600 * SECOND;
    world.node("1").clock += 3600 * SECOND;
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaq", "another's");
}

#[test]
fn a_member_whose_log_is_shorter_than_it_was_has_forgotten() {
    let (mut world, mut client) = formed();
    world.settle(&mut client);
    let (copy, log) = (world.node("2").record.clone(), world.node("2").log);
    let member = copy.as_ref().unwrap().member;
    world.node("2").log += 1;
    world.look(&mut client);
    (world.node("2").record, world.node("2").log) = (copy, log);
    world.look(&mut client);
    assert_eq!(client.standings(), "a-a");
    world.settle(&mut client);
    assert_eq!((client.standings().as_str(), client.generation()), ("aqa", 2));
    let record = world.node("2").record.clone().unwrap();
    assert!(record.member != member && record.run_id == "2-1", "another id in the same memory: {record:?}");
    world.pass(70);
    world.settle(&mut client);
    assert_eq!(client.standings(), "aaa", "its log is now as long as it is");
}

#[test]
fn an_inspection_that_was_overtaken_is_not_taken_for_a_shorter_log() {
    let (mut world, mut client) = formed();
    let asked = client.membership.log_positions();
    let early = world.inspect("2");
    world.node("2").log += 1;
    world.look(&mut client);
    client.membership.observe_since(&asked, 1, early, Duration::ZERO);
    assert_eq!(client.standings(), "aaa");
    // Nor for the end of the log that is remembered.
    world.node("2").log -= 1;
    world.look(&mut client);
    assert_eq!(client.standings(), "a-a");
}

/// Makes a node a copy of another one, as if it had replicated that and was made a master.
fn copy(world: &mut World, from: &str, to: &str) {
    let (record, fence) = (world.node(from).record.clone(), world.node(from).fence);
    let node = world.node(to);
    (node.record, node.fence, node.run) = (record, fence, node.run + 1);
}

// promise: membership
#[test]
fn a_copy_of_a_member_that_is_there_gets_its_own_seat_back() {
    let (mut world, client) = formed();
    let members = |client: &Client| client.membership.roster().unwrap().members().collect::<Vec<_>>();
    let before = members(&client);
    copy(&mut world, "1", "3");
    for mut client in [client, Client::new(&LIST)] {
        world.settle(&mut client);
        assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 2), "{}", client.reason(2));
        assert_eq!(members(&client)[..2], before[..2]);
    }
}

#[test]
fn a_master_whose_data_is_older_than_its_id_gets_its_own_seat_back() {
    for is_fresh in [false, true] {
        let (mut world, mut client) = formed();
        let early = world.node("3").record.clone();
        world.node("3").run += 1;
        world.settle(&mut client);
        world.pass(70);
        world.settle(&mut client);
        assert_eq!((client.standings().as_str(), client.generation()), ("aaa", 2));
        // A backup of before, or a copy of before whose replica it was.
        world.node("3").record = early;
        world.node("3").run += 1;
        if is_fresh {
            client = Client::new(&LIST);
        }
        world.settle(&mut client);
        assert_eq!((client.standings().as_str(), client.generation()), ("aaq", 3), "{}", client.reason(2));
    }
}

// promise: membership
#[test]
fn a_copy_of_a_member_that_never_had_a_seat_is_a_newcomer() {
    let (mut world, mut client) = formed();
    copy(&mut world, "1", "4");
    let mut other = Client::new(&NEW_LIST);
    world.settle(&mut other);
    assert_eq!((other.standings().as_str(), other.generation()), ("aaq", 2));
    world.settle(&mut client);
    assert_eq!(client.standings(), "aa-");
    assert!(client.reason(2).contains("not a member since generation 2"), "{}", client.reason(2));
}

#[test]
fn a_master_that_forgot_is_told_what_it_waits_for() {
    for restart in [false, true] {
        let (mut world, mut client) = formed();
        if restart {
            world.node("1").run += 1;
        } else {
            world.forget("1");
        }
        world.node("2").up = false;
        world.settle(&mut client);
        assert!(client.reason(0).contains("gets its seat back when"), "{}", client.reason(0));
        assert!(client.reason(0).ends_with("; 2 cannot be used"), "{}", client.reason(0));
        // One more that forgot, and the last one does not answer.
        world.node("2").up = true;
        world.forget("2");
        world.node("3").up = false;
        world.settle(&mut client);
        assert!(client.reason(0).contains("is formed again when 3 can be used"), "{}", client.reason(0));
        world.node("3").up = true;
        world.settle(&mut client);
        assert_eq!(client.standings(), "qqq");
    }
}

#[test]
fn a_client_that_knew_none_of_the_forgetful_masters_is_told_how_to_form_the_set_again() {
    let (mut world, _) = formed();
    world.forget("1");
    world.forget("2");
    let mut fresh = Client::new(&LIST);
    world.settle(&mut fresh);
    for node in 0..2 {
        assert!(fresh.reason(node).contains("of the 3 members of the set 1 only"), "{}", fresh.reason(node));
        assert!(fresh.reason(node).contains("`lockctl form`"), "{}", fresh.reason(node));
    }
}
