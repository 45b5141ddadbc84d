//! Certificates and kubeconfigs of a peer, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use crate::tool::capture;

/// Who has a certificate: file name, subject. The administrator has the name that Oarlock gives its own.
const IDENTITIES: [(&str, &str); 4] = [
    ("server", "/CN=kube-apiserver"),
    ("admin", "/O=system:masters/CN=kubernetes-super-admin"),
    ("kube-controller-manager", "/CN=system:kube-controller-manager"),
    ("kube-scheduler", "/CN=system:kube-scheduler"),
];

/// Makes an authority, everybody's certificate and the accounts' key.
pub(super) fn certificates(pki: &Path) -> anyhow::Result<()> {
    let openssl = |words: &str| -> anyhow::Result<()> {
        let (ok, text) = capture(
            Command::new("openssl")
                .args(words.split(' ').map(|word| word.replace('@', &format!("{}/", pki.display())))),
        )?;
        if ok { Ok(()) } else { bail!("openssl {words}: {text}") }
    };
    for key in ["ca", "account"].into_iter().chain(IDENTITIES.map(|(name, _)| name)) {
        // PKCS #8, which every library reads.
        openssl(&format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out @{key}.key"))?;
    }
    openssl("pkey -in @account.key -pubout -out @account.pub")?;
    openssl("req -x509 -new -key @ca.key -subj /CN=ca -days 30 -out @ca.crt")?;
    std::fs::write(
        pki.join("names"),
        "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
    )?;
    for (name, subject) in IDENTITIES {
        openssl(&format!("req -new -key @{name}.key -subj {subject} -out @{name}.csr"))?;
        openssl(&format!(
            "x509 -req -in @{name}.csr -CA @ca.crt -CAkey @ca.key -CAcreateserial -days 30 -out @{name}.crt -extfile @names"
        ))?;
    }
    Ok(())
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
