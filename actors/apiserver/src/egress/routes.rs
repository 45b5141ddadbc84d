//! The way of a connection, by its purpose.

use super::Tunnel;

/// What a connection is for (upstream: egress type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Nodes, pods and Services: kubelets, proxies; webhooks and aggregated servers.
    Cluster,
    /// Servers of the control plane that are not part of the cluster.
    ControlPlane,
    /// The members of etcd.
    Etcd,
}

impl Purpose {
    /// The name in upstream's configuration, and the label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::ControlPlane => "controlplane",
            Self::Etcd => "etcd",
        }
    }
}

/// The way of a connection.
#[derive(Clone, Debug, Default)]
pub enum Route {
    /// To the destination itself.
    #[default]
    Direct,
    /// Through a tunnel.
    Tunnel(Tunnel),
}

/// The way for each purpose; direct unless set.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    cluster: Route,
    control_plane: Route,
    etcd: Route,
}

impl Routes {
    /// Sets the way for a purpose.
    #[must_use]
    pub fn with(mut self, purpose: Purpose, route: Route) -> Self {
        match purpose {
            Purpose::Cluster => self.cluster = route,
            Purpose::ControlPlane => self.control_plane = route,
            Purpose::Etcd => self.etcd = route,
        }
        self
    }

    /// Returns the way for a purpose.
    #[must_use]
    pub const fn of(&self, purpose: Purpose) -> &Route {
        match purpose {
            Purpose::Cluster => &self.cluster,
            Purpose::ControlPlane => &self.control_plane,
            Purpose::Etcd => &self.etcd,
        }
    }
}
