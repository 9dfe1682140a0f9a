# The manager's image, which contains the output of "make build": a static binary and the
# certificates of public CAs.
#
#   make build && docker build -t registry.example.com/heighliner:v0.1.0 .
FROM scratch
COPY bin/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY bin/heighliner /heighliner
USER 65532:65532
ENTRYPOINT ["/heighliner"]
