# One static binary for every service; which one runs is an argument.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/holdfast ./cmd/holdfast

# No shell and no package manager: "holdfast ready URL" is the health check.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/holdfast /usr/local/bin/holdfast
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/holdfast"]
CMD ["--help"]
