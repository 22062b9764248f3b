#!/bin/sh
# Regenerates the stubs in protos/v1 (or in the folder given). PYTHON names an interpreter with grpcio-tools and mypy-protobuf.
set -eu
cd "$(dirname "$0")/.."
out="${1:-src}"
python="${PYTHON:-python3}"
PATH="$(dirname "$(command -v "$python")"):$PATH"
export PATH
for name in document incidents tasks submission control delivery results replication leader; do
    "$python" -m grpc_tools.protoc -Ihubbub/protos=protos \
        --python_out="$out" --mypy_out=quiet:"$out" "hubbub/protos/v1/$name.proto"
done
for name in submission control delivery results replication leader; do
    "$python" -m grpc_tools.protoc -Ihubbub/protos=protos \
        --grpc_python_out="$out" --mypy_grpc_out=quiet,only_async:"$out" "hubbub/protos/v1/$name.proto"
done
