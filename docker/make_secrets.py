#!/usr/bin/env python3
"""Makes the secrets that compose.yaml mounts, in .compose; what is there stays as it is.

Its users, for the demo's sign-in page, are alice (administrator) and bob (reader); their tokens are good for thirty days.
"""
import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".compose"
ABOUT = {
    "alice": {"en": "Administrator: deploys and migrates", "ru": "Администратор: деплоит и переносит"},
    "bob": {"en": "Reader: only looks", "ru": "Читатель: только смотрит"},
}
LIFETIME_S = 30 * 86_400


def keep(folder, name, make):
    path = folder / name
    if not path.exists():
        path.write_text(make(), encoding="utf-8")
    # Containers run as another user; the folder keeps others out.
    path.chmod(0o444)
    return path.read_text(encoding="utf-8")


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(name, secret):
    claims = {"sub": name, "exp": int(time.time()) + LIFETIME_S}
    body = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{body}.{encoded(hmac.new(secret.encode(), body.encode(), hashlib.sha256).digest())}"


def page(secret):
    users = [{"name": name, "token": token(name, secret), "about": about} for name, about in ABOUT.items()]
    return json.dumps({"token_key": "agentchat:demo-token", "demo_users": users}, ensure_ascii=False)


def main(folder=FOLDER):
    folder.mkdir(mode=0o700, exist_ok=True)
    jwt = keep(folder, "jwt_secret", lambda: secrets.token_hex(32))
    keep(folder, "seal_key", lambda: base64.b64encode(secrets.token_bytes(32)).decode())
    keep(folder, "service_client_secret", lambda: secrets.token_hex(16))
    keep(folder, "openai_api_key", lambda: "scripted-model-key")
    password = keep(folder, "postgres_password", lambda: secrets.token_hex(16))
    keep(folder, "database_url", lambda: f"postgres://agentchat:{password}@postgres:5432/agentchat")
    keep(folder, "chat-config.json", lambda: page(jwt))


if __name__ == "__main__":
    main(*[Path(folder) for folder in sys.argv[1:2]])
