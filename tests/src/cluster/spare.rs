//! Gateways beside the cluster's own: a test kills or stops one while others use the cluster.
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::{Cluster, Node};
use crate::gradio::Client;
use crate::process::wait_until;
use crate::rest::Rest;
use crate::{place, token};

pub struct Gateway {
    node: Node,
    dir: PathBuf,
}

impl Cluster {
    /// One more gateway, configured like the first; clients of [`Cluster::url`] don't meet it.
    pub async fn spare_gateway(&self, name: &str) -> Gateway {
        let (program, env) = (place::program("gateway"), self.gateways[0].env.clone());
        let mut node = Node::start("gateway", &program, name, env, &self.dir);
        node.wait_ready().await;
        Gateway { node, dir: self.dir.clone() }
    }
}

impl Gateway {
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.node.port)
    }

    pub fn client(&self, user: &str) -> Client {
        Client::new(&self.url(), &token::user(user))
    }

    pub fn rest(&self, user: &str) -> Rest {
        Rest::new(&self.url(), &token::user(user))
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.node.process.kill();
    }

    /// SIGTERM; returns at once.
    pub fn ask_to_stop(&self) {
        self.node.process.ask_to_stop();
    }

    /// How it ended, which must be soon.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        let process = &mut self.node.process;
        let mut status = None;
        let ended = || {
            status = process.exited();
            std::future::ready(status.is_some())
        };
        wait_until("the gateway's end", within, ended).await;
        status.unwrap()
    }

    /// Starts it again at its old address.
    pub async fn restart(&mut self) {
        self.node.restart(&self.dir);
        self.node.wait_ready().await;
    }
}
