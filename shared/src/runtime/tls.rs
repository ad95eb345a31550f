//! The one TLS implementation of the process.

/// Makes `ring` the provider of every TLS connection; more than one call is harmless.
pub fn install_provider() {
    let installed = rustls::crypto::ring::default_provider().install_default();
    if installed.is_err() {
        tracing::debug!("The TLS provider was already installed");
    }
}
