use data_encoding::BASE64URL_NOPAD;
use hmac_sha256::HMAC;

use crate::kind::Kind;
use crate::limits::check_permits;
use crate::node::SetId;
use crate::random::OwnerId;

/// The format of a credential. One of another format is refused.
const FORMAT: &str = "1";
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
        let mut bytes = self.to_text().into_bytes();
        bytes.extend_from_slice(&HMAC::mac(&bytes, owner.value()));
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// The claims, a line for each. The audience comes last: it alone may have line breaks in it.
    fn to_text(&self) -> String {
        let Self { set, token, not_after, nonce, resource, .. } = self;
        let kind = match self.kind {
            Kind::Write => "write".to_owned(),
            Kind::Read => "read".to_owned(),
            Kind::Permit { of } => of.to_string(),
        };
        let audience = self.audience.as_deref().unwrap_or_default();
        format!("{FORMAT}\n{set}\n{kind}\n{token}\n{not_after}\n{nonce:016x}\n{resource}\n{audience}")
    }

    fn from_text(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.splitn(8, '\n').collect();
        let [FORMAT, set, kind, token, not_after, nonce, resource, audience] = lines[..] else { return None };
        let kind = match kind {
            "write" => Kind::Write,
            "read" => Kind::Read,
            of => Kind::Permit { of: of.parse().ok().filter(|of| check_permits(*of).is_ok())? },
        };
        Some(Self {
            set: SetId(u64::from_str_radix(set, 16).ok()?),
            audience: Some(audience.to_owned()).filter(|audience| !audience.is_empty()),
            resource: resource.to_owned(),
            token: token.parse().ok()?,
            kind,
            not_after: not_after.parse().ok()?,
            nonce: u64::from_str_radix(nonce, 16).ok()?,
        })
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
        Some(Self { claims: Claims::from_text(str::from_utf8(&signed).ok()?)?, signed, code })
    }

    /// Whether this owner made the credential. Takes the same time wherever the codes differ.
    pub(crate) fn is_signed_by(&self, owner: OwnerId) -> bool {
        HMAC::verify(&self.signed, owner.value(), &self.code)
    }
}

// Without the code: a reader of the log cannot use it.
opaque_debug!(Credential, |this| "claims": this.claims);

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
