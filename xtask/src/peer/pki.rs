//! Certificates and kubeconfigs of a peer, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use crate::tool::capture;

/// The identities with a certificate: file name and subject. The administrator has the same name as Oarlock's own.
const IDENTITIES: [(&str, &str); 5] = [
    ("server", "/CN=kube-apiserver"),
    ("admin", "/O=system:masters/CN=kubernetes-super-admin"),
    ("kube-controller-manager", "/CN=system:kube-controller-manager"),
    ("kube-scheduler", "/CN=system:kube-scheduler"),
    ("front-proxy", "/CN=front-proxy"),
];

/// PKCS #8, which every library reads.
const GENERATE: &str = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1";
/// The extensions of all certificates.
const NAMES: &str = "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";

/// Makes an authority, a certificate for each identity, and the key of ServiceAccount tokens.
pub(super) fn certificates(pki: &Path) -> anyhow::Result<()> {
    let openssl = |words: &str| openssl(pki, words);
    for key in ["ca", "account"] {
        openssl(&format!("{GENERATE} -out @{key}.key"))?;
    }
    openssl("pkey -in @account.key -pubout -out @account.pub")?;
    openssl("req -x509 -new -key @ca.key -subj /CN=ca -days 30 -out @ca.crt")?;
    for (name, subject) in IDENTITIES {
        issue(pki, pki, name, subject, NAMES)?;
    }
    Ok(())
}

/// Makes a key and a certificate signed by an authority (`ca.crt` and `ca.key` of its folder), with these extensions: `folder`/`name`.key and .crt.
///
/// # Errors
/// openssl's error.
pub(crate) fn issue(
    authority: &Path,
    folder: &Path,
    name: &str,
    subject: &str,
    extensions: &str,
) -> anyhow::Result<()> {
    std::fs::write(folder.join(format!("{name}.ext")), extensions)?;
    openssl(folder, &format!("{GENERATE} -out @{name}.key"))?;
    openssl(folder, &format!("req -new -key @{name}.key -subj {subject} -out @{name}.csr"))?;
    let ca = authority.display();
    openssl(
        folder,
        &format!(
            "x509 -req -in @{name}.csr -CA {ca}/ca.crt -CAkey {ca}/ca.key -CAserial @{name}.srl -CAcreateserial -days 30 \
             -out @{name}.crt -extfile @{name}.ext"
        ),
    )
}

/// Runs openssl with these words; `@` in a word is replaced by the folder.
fn openssl(folder: &Path, words: &str) -> anyhow::Result<()> {
    let words = words.split(' ').map(|word| word.replace('@', &format!("{}/", folder.display())));
    let mut command = Command::new("openssl");
    let (ok, text) = capture(command.args(words))?;
    if ok { Ok(()) } else { bail!("openssl {:?}: {text}", command.get_args()) }
}

/// Writes the kubeconfig of an identity beside the others and returns where it is.
pub(super) fn kubeconfig(folder: &Path, identity: &str, port: u16) -> anyhow::Result<PathBuf> {
    let name = if identity == "admin" { "kubeconfig".to_owned() } else { format!("{identity}.kubeconfig") };
    let (path, pki) = (folder.join(name), folder.join("pki"));
    let pki = pki.display();
    let text = format!(
        "apiVersion: v1\nkind: Config\n\
         clusters: [{{name: peer, cluster: {{server: \"https://127.0.0.1:{port}\", certificate-authority: {pki}/ca.crt}}}}]\n\
         users: [{{name: user, user: {{client-certificate: {pki}/{identity}.crt, client-key: {pki}/{identity}.key}}}}]\n\
         contexts: [{{name: peer, context: {{cluster: peer, user: user}}}}]\n\
         current-context: peer\n"
    );
    std::fs::write(&path, text)?;
    Ok(path)
}
