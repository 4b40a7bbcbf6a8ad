//! Who may ask: users and their bcrypt hashes.
//!
//! A password is checked once and then known by a keyed digest, so a scrape does not cost a bcrypt each time. An unknown
//! user is checked against the hash of another and refused whatever comes out: it takes the time of a wrong password.
//! One check at a time: guessing takes one core at most, and it is not the server's thread that computes.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use ring::hmac;
use ring::rand::SystemRandom;
use serde::Deserialize;
use tokio::sync::Semaphore;

/// So many right passwords are remembered; more than that is a file that changes all the time.
const KNOWN: usize = 1000;

/// User names and hashes; anybody is let in if there is none.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Users(BTreeMap<String, Hash>);

#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
struct Hash(String);

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match HashParts::from_str(&text) {
            Ok(_) => Ok(Self(text)),
            Err(_) => Err("no bcrypt hash, such as `htpasswd -nBC 10 NAME` prints"),
        }
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// Checks passwords and remembers the right ones.
pub(super) struct Keeper {
    key: hmac::Key,
    known: Mutex<HashSet<Vec<u8>>>,
    turn: Semaphore,
}

impl Default for Keeper {
    fn default() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Self {
            key: key.expect("the kernel gives random bytes"),
            known: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }
}

impl Keeper {
    /// The header `Authorization` names one of the users, and the right password.
    pub(super) async fn admits(&self, users: &Users, authorization: Option<&HeaderValue>) -> bool {
        let Some(another) = users.0.values().next() else {
            return true;
        };
        let Some((user, password)) = authorization.and_then(basic) else {
            return false;
        };
        let named = users.0.get(&user);
        let hash = named.unwrap_or(another).0.clone();
        let digest = self.digest([&user, &hash, &password]);
        if named.is_some() && self.known().contains(&digest) {
            return true;
        }
        let _turn = self.turn.acquire().await;
        let check = move || bcrypt::verify(password, &hash).unwrap_or(false);
        let right = tokio::task::spawn_blocking(check).await.unwrap_or(false);
        let admitted = right && named.is_some();
        if admitted {
            let mut known = self.known();
            if known.len() >= KNOWN {
                known.clear();
            }
            known.insert(digest);
        }
        admitted
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<Vec<u8>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stands for these parts; no other parts give the same.
    fn digest(&self, parts: [&str; 3]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        context.sign().as_ref().to_vec()
    }
}

/// User and password of `Basic`.
fn basic(authorization: &HeaderValue) -> Option<(String, String)> {
    let (scheme, coded) = authorization.to_str().ok()?.split_once(' ')?;
    let plain = STANDARD.decode(coded.trim()).ok()?;
    let text = String::from_utf8(plain).ok()?;
    let (user, password) = text.split_once(':')?;
    scheme
        .eq_ignore_ascii_case("basic")
        .then(|| (user.to_owned(), password.to_owned()))
}
