use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use hmac_sha256::HMAC;

use crate::kind::Kind;
use crate::limits::InvalidPermits;
use crate::node::SetId;
use crate::random::OwnerId;

/// The format of a credential. One of another format is refused.
const FORMAT: u8 = 1;
/// The longest audience: 128 bytes.
pub(crate) const MAX_AUDIENCE_LEN: usize = 128;
/// The longest text that is looked at. None that [`Claims::sign`] writes is longer.
const MAX_LEN: usize = 1024;
const MAC_LEN: usize = 32;

/// What a holder says about its lock to a service that is to work under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The set of masters that holds the lock.
    pub(crate) set: SetId,
    /// The service that may work under the lock; `None` for any that has the credential.
    pub(crate) audience: Option<String>,
    pub(crate) resource: String,
    pub(crate) token: u64,
    pub(crate) kind: Kind,
    /// Until when, in microseconds of the cluster clock.
    pub(crate) not_after: u64,
    /// Drawn for each credential, so that no two are the same.
    pub(crate) nonce: u64,
}

/// [`Claims`] with a code that takes the owner id of the lock to compute.
///
/// It travels as text: the claims and an HMAC-SHA256 of them (RFC 2104), in base64url. The key of the HMAC is the value of the lock
/// key. Holder and masters know it, and it is in no credential: a thief can use a credential until it expires, but forge no
/// other.
pub(crate) struct Credential {
    pub(crate) claims: Claims,
    signed: Vec<u8>,
    code: [u8; MAC_LEN],
}

impl Claims {
    /// The text of a credential that this owner makes.
    pub(crate) fn sign(&self, owner: OwnerId) -> String {
        let mut bytes = self.to_bytes();
        bytes.extend_from_slice(&HMAC::mac(&bytes, owner.value()));
        BASE64URL_NOPAD.encode(&bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let (kind, of) = match self.kind {
            Kind::Write => (0, 0),
            Kind::Read => (1, 0),
            Kind::Permit { of } => (2, of),
        };
        let mut bytes = vec![FORMAT, kind];
        bytes.extend_from_slice(&of.to_be_bytes());
        for number in [self.set.0, self.token, self.not_after, self.nonce] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let audience = self.audience.as_deref().unwrap_or_default();
        // Neither is longer than 512 bytes.
        for text in [audience, &self.resource] {
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.take::<1>()? != [FORMAT] {
            return None;
        }
        let kind = match (reader.take()?, u32::from_be_bytes(reader.take()?)) {
            ([0], 0) => Kind::Write,
            ([1], 0) => Kind::Read,
            ([2], of) if InvalidPermits::check(of).is_ok() => Kind::Permit { of },
            _ => return None,
        };
        let [set, token, not_after, nonce] = [reader.number()?, reader.number()?, reader.number()?, reader.number()?];
        let audience = Some(reader.text()?).filter(|audience| !audience.is_empty());
        let resource = reader.text()?;
        reader.0.is_empty().then_some(Self { set: SetId(set), audience, resource, token, kind, not_after, nonce })
    }
}

impl Credential {
    /// Reads a credential; `None` if the text is none. It says nothing before it is [checked](Self::is_signed_by).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LEN {
            return None;
        }
        let mut signed = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let code = signed.split_off(signed.len().checked_sub(MAC_LEN)?).try_into().ok()?;
        Some(Self { claims: Claims::from_bytes(&signed)?, signed, code })
    }

    /// Whether this owner made the credential. Takes the same time wherever the codes differ.
    pub(crate) fn is_signed_by(&self, owner: OwnerId) -> bool {
        HMAC::verify(&self.signed, owner.value(), &self.code)
    }
}

impl fmt::Debug for Credential {
    /// Without the code: a reader of the log cannot use it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("claims", &self.claims).finish_non_exhaustive()
    }
}

/// Reads from the beginning of some bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(u16::from_be_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::MAX_PERMITS;

    const HOLDER: OwnerId = OwnerId::from_bits(0x2a);
    const OTHER: OwnerId = OwnerId::from_bits(0x2b);

    fn claims() -> Claims {
        Claims {
            set: SetId(7),
            audience: Some("billing".to_owned()),
            resource: "stock:42".to_owned(),
            token: 1_700_000_000_000_000,
            kind: Kind::Write,
            not_after: 1_700_000_010_000_000,
            nonce: 5,
        }
    }

    #[test]
    fn only_the_holder_makes_a_credential() {
        let credential = Credential::parse(&claims().sign(HOLDER)).unwrap();
        assert_eq!(credential.claims, claims());
        assert!(credential.is_signed_by(HOLDER));
        assert!(!credential.is_signed_by(OTHER));
    }

    #[test]
    fn a_credential_with_any_byte_changed_is_refused() {
        let bytes = BASE64URL_NOPAD.decode(claims().sign(HOLDER).as_bytes()).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let credential = Credential::parse(&BASE64URL_NOPAD.encode(&changed));
            assert!(!credential.is_some_and(|credential| credential.is_signed_by(HOLDER)), "byte {at}");
        }
    }

    #[test]
    fn the_owner_id_is_not_in_a_credential() {
        let text = claims().sign(HOLDER);
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        let (id, value) = (0x2a_u128.to_be_bytes(), HOLDER.value());
        assert!(!bytes.windows(id.len()).any(|window| window == id));
        assert!(!bytes.windows(value.len()).any(|window| window == value));
    }

    #[test]
    fn a_credential_in_a_log_cannot_be_used() {
        let text = claims().sign(HOLDER);
        let logged = format!("{:?}", Credential::parse(&text).unwrap());
        assert!(logged.contains("stock:42"));
        assert!(!logged.contains("code") && !logged.contains("signed"));
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Write), Just(Kind::Read), (1..=MAX_PERMITS).prop_map(|of| Kind::Permit { of })]
    }

    proptest! {
        #[test]
        fn any_claims_are_read_as_they_were_written(
            (numbers, kind, audience, resource) in (any::<[u64; 4]>(), kind(), "[a-z.]{0,128}", "[^{}\\x00-\\x1f]{1,100}")
        ) {
            let [set, token, not_after, nonce] = numbers;
            let audience = Some(audience).filter(|audience| !audience.is_empty());
            let claims = Claims { set: SetId(set), audience, resource, token, kind, not_after, nonce };
            let credential = Credential::parse(&claims.sign(HOLDER)).unwrap();
            prop_assert!(credential.is_signed_by(HOLDER));
            prop_assert_eq!(credential.claims, claims);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,300}", bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            _ = Credential::parse(&text);
            _ = Credential::parse(&BASE64URL_NOPAD.encode(&bytes));
        }
    }
}
