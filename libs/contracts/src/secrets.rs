//! `Debug` implementations that omit secrets, because such texts reach logs.

use std::fmt::{Debug, Formatter, Result};

use crate::cri::AuthConfig;
use crate::etcd::{AuthenticateRequest, AuthenticateResponse};

impl Debug for AuthConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("AuthConfig").field("server_address", &self.server_address).finish_non_exhaustive()
    }
}

impl Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("AuthenticateRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("AuthenticateResponse").finish_non_exhaustive()
    }
}
