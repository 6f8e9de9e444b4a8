use super::*;

#[test]
fn a_time_is_never_rounded_down() {
    assert_eq!(millis(Duration::from_micros(100_001)), 101);
    assert_eq!(millis(Duration::from_millis(100)), 100);
    assert_eq!(millis(Duration::ZERO), 0);
}

#[test]
fn an_acquire_that_differs_from_the_others_of_its_batch_says_so() {
    let owner = OwnerId::from_bits(1);
    let acquire = |last, ttl, tokens| Acquire { owner, last, since: 5, permits: None, ttl, tokens };
    let arg = |acquire: Acquire| {
        let mut command = Cmd::new();
        acquire.encode(&mut command, (1000, 1));
        let args = command.args_iter().map(|arg| match arg {
            redis::Arg::Simple(arg) => String::from_utf8(arg.to_vec()).unwrap(),
            _ => panic!("not an argument"),
        });
        args.skip(1).collect::<Vec<_>>()
    };
    assert_eq!(arg(acquire(7, 1000, 1)), ["7", "5"]);
    assert_eq!(arg(acquire(7, 1001, 1)), ["7 1001 1", "5"]);
    assert_eq!(arg(acquire(7, 1000, 2)), ["7 1000 2", "5"]);
    assert_eq!(arg(Acquire { permits: Some(3), ..acquire(7, 1000, 1) }), ["7", "5k3"]);
}

fn replies(text: &str, count: usize) -> Vec<Result<Reply, NodeError>> {
    decode(&Value::BulkString(text.as_bytes().to_vec()), count).collect()
}

#[test]
fn a_reply_is_read_or_reported_as_it_came() {
    let reply = |text| replies(text, 1).remove(0);
    assert_eq!(reply("9007199254740991"), Ok(Reply::Granted { token: 9_007_199_254_740_991 }));
    let (remaining, anew) = (Some(Duration::from_millis(1500)), Position { ahead: 3, anew: true });
    let position = Some(Position { anew: false, ..anew });
    let held = |remaining, stranger, position, offer| Ok(Reply::Held { remaining, stranger, position, offer });
    assert_eq!(reply("H1500"), held(remaining, false, None, None));
    assert_eq!(reply("H1500 3"), held(remaining, false, position, None));
    assert_eq!(reply("A1500 3"), held(remaining, false, Some(anew), None));
    assert_eq!(reply("S-1 3"), held(None, true, position, None));
    // Of a key that somebody else wrote, to expire in the year 9999.
    for far in ["S2.5167640799e+14", "S9.2233703e+18"] {
        assert_eq!(reply(far), held(Some(Duration::from_millis(MAX_TOKEN)), true, None, None));
    }
    let offer = Some(SlotOffer { proposed: 2, free: [0, 2].into_iter().collect() });
    assert_eq!(reply("H1500 3 s2,0,2"), held(remaining, false, position, offer));
    assert_eq!(reply("H1500 s2,0,2"), held(remaining, false, None, offer));
    for odd in [
        "H",
        "H1500 x",
        "H1500 s",
        "H1500 s2,0",
        "H1500 3 s100,100",
        "Hs0,0",
        "Hx",
        "-7",
        "1e15",
        "H1e13",
        "H1e400",
        "H-1e15",
        "Hnan",
        "R",
        "Rx",
        "X7",
        "é",
        "D\nD",
        "",
    ] {
        assert!(matches!(reply(odd), Err(NodeError::Protocol { .. })), "{odd:?}");
    }
    assert_eq!(replies("U", 3), vec![Err(NodeError::Unadmitted); 3]);
    assert!(matches!(decode(&Value::Nil, 1).next(), Some(Err(NodeError::Protocol { .. }))));
}

#[test]
fn an_error_of_redis_6_that_ends_with_a_line_break_is_that_of_its_request_alone() {
    let full = "E@user_script: 211: -OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let is_full =
        |reply: &Result<Reply, NodeError>| matches!(reply, Err(NodeError::Rejected { code, .. }) if code == "OOM");
    assert!(is_full(&replies(full, 1)[0]));
    for (count, failed) in [(1, 0), (3, 0), (3, 1), (3, 2)] {
        let lines: Vec<&str> = (0..count).map(|line| if line == failed { full } else { "K" }).collect();
        let replies = replies(&lines.join("\n"), count);
        let as_sent = |(line, reply)| if line == failed { is_full(reply) } else { *reply == Ok(Reply::Kept) };
        assert!(replies.iter().enumerate().all(as_sent), "{replies:?}");
    }
    assert!(matches!(replies(full, 2)[..], [_, Err(NodeError::Protocol { .. })]));
}

#[test]
fn numbers_beyond_2_53_are_not_taken_for_replies() {
    for number in ["9007199254740992", "9223372036854775807", "18446744073709551615", "99999999999999999999"] {
        for line in ["#", "R#", "H#", "A#", "S#", "H# 1", "H1 #"].map(|line| line.replace('#', number)) {
            assert!(matches!(replies(&line, 1)[..], [Err(NodeError::Protocol { .. })]), "{line}");
        }
    }
}

proptest::proptest! {
    #[test]
    fn whatever_a_server_sends_is_read_or_reported(
        lines in proptest::collection::vec("[HASDNLCRKBGEU]?(-?[0-9]{0,20}| ){0,4}|.{0,20}", 0..4), count in 0..4_usize,
    ) {
        let replies = replies(&lines.join("\n"), count);
        proptest::prop_assert_eq!(replies.len(), count);
        for reply in replies.into_iter().flatten() {
            if let Reply::Granted { token: number } | Reply::Refused { fence: number } = reply {
                proptest::prop_assert!(number < 1 << 53);
            }
        }
    }
}

#[test]
fn a_request_that_fails_leaves_the_others_of_its_batch_alone() {
    let oom = classify::error_reply("OOM", "command not allowed");
    assert_eq!(replies("EOOM command not allowed\nD", 2), [Err(oom), Ok(Reply::Released)]);
    let plain = NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() };
    assert_eq!(replies("D\nEthe fence is used up", 2), [Ok(Reply::Released), Err(plain)]);
}
