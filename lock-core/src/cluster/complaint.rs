use std::mem::discriminant;

use crate::error::NodeError;

/// Why a node cannot do what it is asked for, until it can: so that a cause is reported once, and not each time that it is met.
#[derive(Debug, Default)]
pub(super) struct Complaint(Option<NodeError>);

impl Complaint {
    /// Notes why the node could not. Returns whether it is another cause than before.
    pub(super) fn note(&mut self, error: &NodeError) -> bool {
        let is_another = self.0.as_ref().is_none_or(|before| !is_same_cause(before, error));
        self.0 = Some(error.clone());
        is_another
    }

    /// Notes that the node could. Returns whether there was a cause before.
    pub(super) fn resolve(&mut self) -> bool {
        self.0.take().is_some()
    }

    pub(super) fn cause(&self) -> Option<&NodeError> {
        self.0.as_ref()
    }
}

/// Whether two errors have one cause. The text of an error may differ each time.
fn is_same_cause(one: &NodeError, other: &NodeError) -> bool {
    match (one, other) {
        (NodeError::Rejected { code: one, .. }, NodeError::Rejected { code: other, .. })
        | (NodeError::Elsewhere { code: one, .. }, NodeError::Elsewhere { code: other, .. }) => one == other,
        (NodeError::Refused(one), NodeError::Refused(other)) => discriminant(one) == discriminant(other),
        _ => discriminant(one) == discriminant(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;

    #[test]
    fn a_cause_is_new_until_it_is_resolved() {
        let rejected = |code: &str, detail: &str| NodeError::Rejected { code: code.into(), detail: detail.into() };
        let mut complaint = Complaint::default();
        assert!(!complaint.resolve());
        assert!(complaint.note(&rejected("OOM", "at line 1")));
        assert!(!complaint.note(&rejected("OOM", "at line 2")));
        assert!(complaint.note(&rejected("NOREPLICAS", "")));
        assert!(complaint.note(&Refusal::Permission { detail: String::new() }.into()));
        assert!(complaint.note(&Refusal::Replica.into()));
        assert_eq!(complaint.cause(), Some(&Refusal::Replica.into()));
        assert!(complaint.resolve() && complaint.cause().is_none());
        assert!(complaint.note(&Refusal::Replica.into()));
    }
}
