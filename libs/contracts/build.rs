//! Compiles every file of `proto/` into one module tree, without protoc.

use std::path::{Path, PathBuf};

use prost_build::{Config, Service, ServiceGenerator};

/// Messages whose derived `Debug` text would show a secret; `src/secrets.rs` implements `Debug` for these.
const SECRET: [&str; 3] =
    [".runtime.v1.AuthConfig", ".etcdserverpb.AuthenticateRequest", ".etcdserverpb.AuthenticateResponse"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Read at run time: a build script from a compiler cache may have been compiled in another folder.
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    find(&root, &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    Config::new()
        .enable_type_names()
        .bytes(["."])
        .btree_map(["."])
        .skip_debug(SECRET)
        // `google.protobuf.Any` from its own definition, so that its bytes are not copied either.
        .compile_well_known_types()
        .disable_comments([".google"])
        .service_generator(Box::new(Methods))
        .include_file("proto.rs")
        .compile_fds(descriptors)?;
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

/// Generates for each gRPC service a type of the same name, whose constants are the service's methods.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, text: &mut String) {
        // A service without a package is named by itself alone.
        let path = format!("{}.{}", service.package, service.proto_name);
        let (name, path) = (&service.name, path.trim_start_matches('.'));
        text.push_str(&format!("/// Methods of the gRPC service `{path}`.\n#[derive(Debug)]\npub enum {name} {{}}\n"));
        text.push_str(&format!("impl {name} {{\n"));
        for method in &service.methods {
            let kind = match (method.client_streaming, method.server_streaming) {
                (false, false) => "Unary",
                (false, true) => "ServerStreaming",
                (true, false) => "ClientStreaming",
                (true, true) => "Bidirectional",
            };
            let (constant, input, output) = (method.name.to_uppercase(), &method.input_type, &method.output_type);
            text.push_str(&format!("    /// `{}`.\n", method.proto_name));
            text.push_str(&format!(
                "    pub const {constant}: crate::Method<{input}, {output}, crate::{kind}> = \
                 crate::Method::new(\"/{path}/{}\");\n",
                method.proto_name
            ));
        }
        text.push_str("}\n");
    }
}
