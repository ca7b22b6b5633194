# The Go client's part of ./dev. Sourced by dev; the helpers are those of scripts/install.sh.
# shellcheck shell=bash

# Sees to it that protoc's two Go plugins are in .tools/bin in the versions that tools/go.mod pins:
# the stubs name their versions, so the machine's own would rewrite them.
need_go_plugins() {
  local go
  if [[ -x .tools/bin/protoc-gen-go && -x .tools/bin/protoc-gen-go-grpc ]] &&
    is_current go-plugins tools/go.mod tools/go.sum; then
    return 0
  fi
  mkdir -p .tools/bin
  go=$(find_go) || return 1
  say "building protoc's Go plugins"
  (cd tools && CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-mod=readonly -buildvcs=false' \
    "$go" build -trimpath -o ../.tools/bin/ google.golang.org/protobuf/cmd/protoc-gen-go \
    google.golang.org/grpc/cmd/protoc-gen-go-grpc) >&2 || return 1
  mark_current go-plugins tools/go.mod tools/go.sum
}

# Rewrites the committed stubs in client/go/idempotency/v1.
go_generate() {
  need_packages protobuf-compiler
  need_go_plugins || return 1
  rm -f client/go/idempotency/v1/*.pb.go
  protoc --proto_path=proto \
    --plugin=.tools/bin/protoc-gen-go --plugin=.tools/bin/protoc-gen-go-grpc \
    --go_out=client/go --go_opt=module=idempotencyd/client/go \
    --go-grpc_out=client/go --go-grpc_opt=module=idempotencyd/client/go \
    proto/idempotency/v1/*.proto
}
