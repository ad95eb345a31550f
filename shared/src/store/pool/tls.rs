//! TLS of the hot pool, from the same `DATABASE_URL` that sqlx reads.
//!
//! tokio-postgres knows neither `sslrootcert` nor `sslmode=verify-…`; here a server that speaks TLS is always
//! verified, so `require` and `verify-full` are the same.
use anyhow::{Context, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A database URL without the parameters that tokio-postgres refuses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub url: String,
    pub root_certificates: Option<String>,
}

pub(super) fn translate(url: &str) -> Translated {
    let Some((base, query)) = url.split_once('?') else {
        return Translated { url: url.to_owned(), root_certificates: None };
    };
    let mut root_certificates = None;
    let mut kept: Vec<&str> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslrootcert", path)) => {
                root_certificates = Some(path.replace("%2F", "/").replace("%2f", "/"))
            }
            Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
            Some(("sslmode", "allow")) => kept.push("sslmode=prefer"),
            Some(_) | None => kept.push(parameter),
        }
    }
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    Translated { url, root_certificates }
}

/// Trusts the given file, or else the system's certificates. `None`: there are none.
pub(super) fn connector(
    root_certificates: Option<&str>,
) -> anyhow::Result<Option<MakeRustlsConnect>> {
    let Some(path) = root_certificates else {
        return match MakeRustlsConnect::with_native_certs() {
            Ok((connector, _)) => Ok(Some(connector)),
            Err(_) => Ok(None),
        };
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).with_context(|| format!("reading {path}"))?;
    for certificate in certificates {
        roots
            .add(certificate.with_context(|| format!("reading {path}"))?)
            .context("trusting a certificate")?;
    }
    ensure!(!roots.is_empty(), "{path} holds no certificate");
    Ok(Some(MakeRustlsConnect::new(
        ClientConfig::builder().with_root_certificates(roots).with_no_client_auth(),
    )))
}

#[cfg(test)]
mod tests;
