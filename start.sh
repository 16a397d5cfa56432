#!/bin/sh
# Starts Turno with PostgreSQL, RabbitMQ and Redis in containers, and opens the panel. The first run makes .env with
# random secrets and prints the API key; later runs keep it.
set -eu
cd "$(dirname "$0")"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# 48 hexadecimal digits: safe in addresses, and as unguessable as 24 random bytes.
random_secret() {
  secret=$(od -An -v -N24 -tx1 /dev/urandom | tr -d ' \n')
  [ "${#secret}" -eq 48 ] || fail "No random numbers came from /dev/urandom."
  printf %s "$secret"
}

sha256() {
  if command -v sha256sum >/dev/null 2>&1; then
    printf %s "$1" | sha256sum | cut -d ' ' -f 1
  elif command -v shasum >/dev/null 2>&1; then
    printf %s "$1" | shasum -a 256 | cut -d ' ' -f 1
  else
    printf %s "$1" | openssl dgst -sha256 -r | cut -d ' ' -f 1
  fi
}

make_env() {
  key=$(random_secret)
  samples_key=$(random_secret)
  hash=$(sha256 "$key")
  samples_hash=$(sha256 "$samples_key")
  if [ "${#hash}" -ne 64 ] || [ "${#samples_hash}" -ne 64 ]; then
    fail "Nothing here computes SHA-256: install sha256sum, shasum or openssl."
  fi
  # Readable by its owner only from the first byte on; under its name only when it is complete.
  umask 077
  partial=$(mktemp ./.env.XXXXXX)
  trap 'rm -f "$partial"' EXIT
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      TURNO_API_KEY=) line="TURNO_API_KEY=$key" ;;
      TURNO_API_KEYS=) line="TURNO_API_KEYS=owner:admin:$hash,samples:read:$samples_hash" ;;
      SAMPLES_API_KEY=) line="SAMPLES_API_KEY=$samples_key" ;;
      [A-Z]*=) line="$line$(random_secret)" ;;
    esac
    printf '%s\n' "$line"
  done <.env.example >"$partial"
  mv "$partial" .env
  trap - EXIT
  printf '%s\n' "Made .env with new secrets. Your key for the API and the panel, shown this once (it stays in .env):" "" "  $key" ""
}

# The value of a setting, as compose takes it: from the environment, else from .env.
setting() {
  eval "value=\${$1:-}"
  [ -n "$value" ] || value=$(sed -n "s/^$1=//p" .env | tail -n 1)
  printf %s "${value:-$2}"
}

open_browser() {
  for program in xdg-open open wslview; do
    command -v "$program" >/dev/null 2>&1 || continue
    "$program" "$1" >/dev/null 2>&1 &
    return
  done
}

docker compose version >/dev/null 2>&1 ||
  fail "Docker with its compose plugin is needed: https://docs.docker.com/get-docker/" "(Without Docker, npm start runs everything on this machine.)"
if [ ! -e .env ]; then
  # Their passwords were in the .env that is gone; new ones would be refused.
  if docker volume inspect turno_postgres >/dev/null 2>&1; then
    fail "There is no .env here, but a database of an earlier start (volume turno_postgres), whose password was in it." \
      "Put that .env back, or give up the data: docker compose down --volumes, then start again."
  fi
  make_env
fi

docker compose up --detach --build --wait --wait-timeout 900 "$@"

host=$(setting API_HOST 127.0.0.1)
[ "$host" = 0.0.0.0 ] && host=localhost
url="http://$host:$(setting API_PORT 8080)"
printf '%s\n' "Turno is ready: $url" "Stop it with: docker compose stop"
[ -n "${NO_BROWSER:-}" ] || open_browser "$url"
