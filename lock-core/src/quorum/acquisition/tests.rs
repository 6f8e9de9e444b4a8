use super::*;
use crate::node::MAX_TOKEN;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const NOW: Duration = ms(1);

fn attempt(nodes: usize) -> Acquisition {
    Acquisition::new(nodes, Terms { ttl: ms(1000), min_validity: Duration::ZERO, tokens: 1 })
}

fn granted(token: u64) -> AcquireVote {
    AcquireVote::Granted { token }
}

fn held(remaining: u64) -> AcquireVote {
    AcquireVote::Held { remaining: Some(ms(remaining)) }
}

#[test]
fn a_majority_that_agrees_decides_with_its_last_vote() {
    let mut attempt = attempt(5);
    assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
    assert_eq!(attempt.acquire_vote(4, AcquireVote::NoReply, NOW), Step::Wait);
    assert_eq!(attempt.acquire_vote(1, granted(7), NOW), Step::Wait);
    assert_eq!(attempt.acquire_vote(3, granted(7), NOW), Step::Granted { token: 7 });
    assert_eq!(attempt.acquire_vote(2, granted(7), NOW), Step::Wait, "a straggler changes nothing");
}

#[test]
fn no_token_is_beyond_the_largest_one_and_none_overflows() {
    for extreme in [MAX_TOKEN, u64::MAX] {
        let mut attempt = attempt(3);
        assert_eq!(attempt.acquire_vote(0, granted(extreme), NOW), Step::Wait);
        assert!(matches!(attempt.acquire_vote(1, granted(extreme), NOW), Step::Granted { token } if token == extreme));
        let mut attempt = super::Acquisition::new(3, Terms { ttl: ms(1000), min_validity: Duration::ZERO, tokens: 16 });
        assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
        assert!(matches!(attempt.acquire_vote(1, granted(6), NOW), Step::Confirm { round: 1, token: 7, .. }));
        assert_eq!(attempt.confirm_vote(0, 1, ConfirmVote::Refused { fence: extreme }, NOW), Step::Wait);
        assert_eq!(
            attempt.acquire_vote(2, held(5), NOW),
            Step::Failed(Failure::Contended { free_in: Some(Duration::ZERO) })
        );
    }
}

#[test]
fn the_quorum_is_a_whole_majority_of_all_nodes() {
    assert_eq!([1, 2, 3, 4, 5, 7].map(majority), [1, 2, 2, 3, 3, 4]);
    let mut attempt = attempt(5);
    for node in [0, 1, 2] {
        assert_eq!(
            attempt.acquire_vote(node, AcquireVote::NoReply, NOW),
            [Step::Wait, Step::Wait, Step::Failed(Failure::NoQuorum)][node]
        );
    }
    assert_eq!(attempt.acquire_vote(3, granted(1), NOW), Step::Wait, "two grants of two answers are no majority");
}

#[test]
fn a_vote_counts_once() {
    let mut attempt = attempt(3);
    assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
    assert_eq!(attempt.acquire_vote(0, granted(7), NOW), Step::Wait);
    assert_eq!(attempt.acquire_vote(9, granted(7), NOW), Step::Wait, "and a node that is none, never");
}

#[test]
fn nodes_that_disagree_are_asked_to_confirm_the_largest() {
    let mut attempt = attempt(5);
    attempt.acquire_vote(0, granted(1), NOW);
    attempt.acquire_vote(1, granted(2), NOW);
    assert_eq!(attempt.acquire_vote(2, granted(3), NOW), Step::Confirm { round: 1, token: 3, nodes: vec![0, 1, 2] });
    assert_eq!(attempt.acquire_vote(3, granted(3), NOW), Step::Confirm { round: 1, token: 3, nodes: vec![3] });
    attempt.confirm_vote(0, 1, ConfirmVote::Confirmed, NOW);
    attempt.confirm_vote(3, 1, ConfirmVote::Confirmed, NOW);
    assert_eq!(attempt.confirm_vote(3, 1, ConfirmVote::Confirmed, NOW), Step::Wait, "a vote counts once");
    assert_eq!(attempt.confirm_vote(2, 1, ConfirmVote::Confirmed, NOW), Step::Granted { token: 3 });
}

#[test]
fn a_higher_number_allows_one_more_round_and_no_third() {
    let mut attempt = attempt(3);
    attempt.acquire_vote(0, granted(1), NOW);
    attempt.acquire_vote(1, granted(2), NOW);
    attempt.acquire_vote(2, AcquireVote::NoReply, NOW);
    let again = attempt.confirm_vote(0, 1, ConfirmVote::Refused { fence: 8 }, NOW);
    assert_eq!(again, Step::Confirm { round: 2, token: 9, nodes: vec![0, 1] });
    assert_eq!(attempt.confirm_vote(1, 1, ConfirmVote::Confirmed, NOW), Step::Wait, "of the first round");
    attempt.confirm_vote(1, 2, ConfirmVote::Confirmed, NOW);
    let mut refused = attempt.clone();
    assert_eq!(attempt.confirm_vote(0, 2, ConfirmVote::Confirmed, NOW), Step::Granted { token: 9 });
    let failed = refused.confirm_vote(0, 2, ConfirmVote::Refused { fence: 10 }, NOW);
    assert_eq!(failed, Step::Failed(Failure::Contended { free_in: Some(Duration::ZERO) }));
}

#[test]
fn a_refusal_without_a_higher_number_is_the_end() {
    let mut attempt = attempt(3);
    attempt.acquire_vote(0, granted(1), NOW);
    attempt.acquire_vote(1, granted(2), NOW);
    attempt.acquire_vote(2, AcquireVote::NoReply, NOW);
    let lost = attempt.confirm_vote(0, 1, ConfirmVote::Refused { fence: 1 }, NOW);
    assert_eq!(lost, Step::Failed(Failure::Contended { free_in: Some(Duration::ZERO) }));
}

#[test]
fn contended_and_no_quorum_are_told_apart() {
    let mut contended = attempt(5);
    contended.acquire_vote(0, held(300), NOW);
    contended.acquire_vote(1, held(200), NOW);
    let verdict = contended.acquire_vote(2, held(400), NOW);
    assert_eq!(verdict, Step::Failed(Failure::Contended { free_in: Some(ms(400)) }), "with the deciding vote");

    let mut open = attempt(5);
    open.acquire_vote(0, held(300), NOW);
    open.acquire_vote(1, AcquireVote::NoReply, NOW);
    assert_eq!(open.acquire_vote(2, AcquireVote::NoReply, NOW), Step::Wait, "could still be either");
    let mut no_quorum = open.clone();
    assert_eq!(no_quorum.acquire_vote(3, AcquireVote::NoReply, NOW), Step::Failed(Failure::NoQuorum));
    assert_eq!(open.acquire_vote(3, granted(1), NOW), Step::Wait);
    assert_eq!(open.acquire_vote(4, granted(1), NOW), Step::Failed(Failure::Contended { free_in: Some(ms(300)) }));
}

#[test]
fn a_split_vote_is_contended() {
    let mut attempt = attempt(3);
    attempt.acquire_vote(0, granted(1), NOW);
    attempt.acquire_vote(1, held(900), NOW);
    assert_eq!(attempt.acquire_vote(2, held(800), NOW), Step::Failed(Failure::Contended { free_in: Some(ms(800)) }));
}

#[test]
fn a_key_without_an_end_gives_no_hint() {
    let mut attempt = attempt(1);
    let verdict = attempt.acquire_vote(0, AcquireVote::Held { remaining: None }, NOW);
    assert_eq!(verdict, Step::Failed(Failure::Contended { free_in: None }));
}

#[test]
fn a_grant_that_came_too_late_is_expired() {
    let mut late = attempt(1);
    assert_eq!(late.acquire_vote(0, granted(1), ms(988)), Step::Failed(Failure::Expired));
    let mut short = Acquisition::new(1, Terms { ttl: ms(1000), min_validity: ms(500), tokens: 1 });
    assert_eq!(short.acquire_vote(0, granted(1), ms(489)), Step::Failed(Failure::Expired));
}

#[test]
fn a_block_of_tokens_lies_wholly_above_what_the_nodes_have_seen() {
    let block = || Acquisition::new(3, Terms { ttl: ms(1000), min_validity: Duration::ZERO, tokens: 4 });
    let mut agreed = block();
    agreed.acquire_vote(0, granted(13), NOW);
    assert_eq!(agreed.acquire_vote(1, granted(13), NOW), Step::Granted { token: 10 });

    // The nodes stood at 9 and 5, and a third, that did not answer in time, at 20.
    let mut split = block();
    split.acquire_vote(0, granted(13), NOW);
    assert_eq!(split.acquire_vote(1, granted(9), NOW), Step::Confirm { round: 1, token: 13, nodes: vec![0, 1] });
    split.acquire_vote(2, granted(24), NOW);
    split.confirm_vote(0, 1, ConfirmVote::Confirmed, NOW);
    split.confirm_vote(1, 1, ConfirmVote::NoReply, NOW);
    let again = split.confirm_vote(2, 1, ConfirmVote::Refused { fence: 24 }, NOW);
    assert_eq!(again, Step::Confirm { round: 2, token: 28, nodes: vec![0, 2] });
    split.confirm_vote(0, 2, ConfirmVote::Confirmed, NOW);
    let last = split.confirm_vote(2, 2, ConfirmVote::Confirmed, NOW);
    assert_eq!(last, Step::Granted { token: 25 }, "25 to 28");
}
