"""How Spark, delta-rs and DuckDB reach an object store: the URL, and the settings in their own words."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from lakesmith.errors import DeclarationError
from lakesmith.ports import EngineAccess, EngineName
from lakesmith.store.access import Access, RemoteFolder
from lakesmith.store.object_clients import azure_account, is_plain, s3_keys, s3_region

_SERVICE = "core.windows.net"


def engine_access(folder: RemoteFolder, engine: EngineName) -> EngineAccess:
    """How an engine reaches a folder of a bucket or container."""
    access = folder.access
    settings: Mapping[str, str | None]
    match access.kind, engine:
        case "s3", "spark":
            settings = _s3_spark(access)
        case "s3", "delta-rs":
            settings = _s3_delta(access)
        case "s3", "duckdb":
            settings = _s3_duckdb(access)
        case "az", "spark":
            return _given(_abfs_url(access), folder.path, _azure_spark(access))
        case "az", "delta-rs":
            settings = _azure_delta(access)
        case "az", "duckdb":
            settings = _azure_duckdb(access)
        case _, "spark":
            settings = _google_spark(access)
        case _, "delta-rs":
            settings = _google_delta(access)
        case _:
            raise DeclarationError("unknown-storage", f"DuckDB does not read {access.url}", hint="use s3:// or az://")
    # One spelling of a URL for all engines.
    return _given(f"{access.kind}://{access.place}", folder.path, settings)


def _given(root: str, path: str, settings: Mapping[str, str | None]) -> EngineAccess:
    given = {name: value for name, value in settings.items() if value is not None}
    return EngineAccess(f"{root}/{path}".rstrip("/"), given)


def _s3_spark(access: Access) -> dict[str, str | None]:
    bucket, keys, endpoint = f"spark.hadoop.fs.s3a.bucket.{access.place}", s3_keys(access), access.get("endpoint")
    provider = None
    if keys.key:
        provider = f"org.apache.hadoop.fs.s3a.{'Temporary' if keys.token else 'Simple'}AWSCredentialsProvider"
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{bucket}.endpoint": endpoint,
        f"{bucket}.endpoint.region": s3_region(access) or ("us-east-1" if endpoint else None),
        f"{bucket}.path.style.access": "true" if endpoint else None,
        f"{bucket}.aws.credentials.provider": provider,
        f"{bucket}.access.key": keys.key,
        f"{bucket}.secret.key": keys.secret,
        f"{bucket}.session.token": keys.token,
    }


def _s3_delta(access: Access) -> dict[str, str | None]:
    keys, endpoint = s3_keys(access), access.get("endpoint")
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if is_plain(endpoint) else None,
        "AWS_REGION": s3_region(access) or ("us-east-1" if endpoint else None),
        "AWS_ACCESS_KEY_ID": keys.key,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
        "AWS_SESSION_TOKEN": keys.token,
        "AWS_CONDITIONAL_PUT": "etag",
    }


def _s3_duckdb(access: Access) -> dict[str, str | None]:
    """The parameters of a secret."""
    keys, endpoint = s3_keys(access), access.get("endpoint")
    return {
        "TYPE": "s3",
        "PROVIDER": None if keys.key else "credential_chain",
        "KEY_ID": keys.key,
        "SECRET": keys.secret,
        "SESSION_TOKEN": keys.token,
        "REGION": s3_region(access),
        "ENDPOINT": endpoint and endpoint.partition("://")[2],
        "URL_STYLE": "path" if endpoint else None,
        "USE_SSL": "false" if is_plain(endpoint) else None,
    }


def _abfs_url(access: Access) -> str:
    return f"{'abfs' if _is_plain_azure(access) else 'abfss'}://{access.place}@{_abfs_host(access)}"


def _abfs_host(access: Access) -> str:
    """The host in Hadoop's URL, which names the account also where another server answers."""
    account = azure_account(access)
    host = urlsplit(account.endpoint).hostname or ""
    return host.replace(".blob.", ".dfs.") if ".blob." in host else f"{account.name}.dfs.{_SERVICE}"


def _is_plain_azure(access: Access) -> bool:
    return is_plain(azure_account(access).endpoint)


def _azure_spark(access: Access) -> dict[str, str | None]:
    account, host = azure_account(access), _abfs_host(access)
    settings: dict[str, str | None] = {}
    if account.key:
        settings[f"spark.hadoop.fs.azure.account.key.{host}"] = account.key
    elif account.sas:
        settings[f"spark.hadoop.fs.azure.account.auth.type.{host}"] = "SAS"
        settings[f"spark.hadoop.fs.azure.sas.fixed.token.{host}"] = account.sas
    server = urlsplit(account.endpoint)
    if ".blob." not in (server.hostname or ""):  # an emulator has no file-system service
        settings |= {
            "spark.hadoop.fs.azure.abfs.endpoint": server.netloc,
            f"spark.hadoop.fs.azure.account.hns.enabled.{host}": "false",
            f"spark.hadoop.fs.azure.fns.account.service.type.{host}": "BLOB",
            f"spark.hadoop.fs.azure.ingress.service.type.{host}": "BLOB",
        }
    if is_plain(account.endpoint):
        settings["spark.hadoop.fs.azure.always.use.https"] = "false"
    return settings


def _azure_delta(access: Access) -> dict[str, str | None]:
    account = azure_account(access)
    return {
        "azure_storage_account_name": account.name,
        "azure_storage_account_key": account.key,
        "azure_storage_sas_token": None if account.key else account.sas,
        "azure_storage_endpoint": account.endpoint,
        "allow_http": "true" if is_plain(account.endpoint) else None,
    }


def _azure_duckdb(access: Access) -> dict[str, str | None]:
    """The parameters of a secret."""
    account = azure_account(access)
    parts = {
        "DefaultEndpointsProtocol": account.endpoint.partition("://")[0],
        "AccountName": account.name,
        "AccountKey": account.key,
        "SharedAccessSignature": None if account.key else account.sas,
        "BlobEndpoint": account.endpoint,
    }
    if not (account.key or account.sas):
        return {"TYPE": "azure", "PROVIDER": "credential_chain", "ACCOUNT_NAME": account.name}
    return {"TYPE": "azure", "CONNECTION_STRING": ";".join(f"{name}={each}" for name, each in parts.items() if each)}


def _google_spark(access: Access) -> dict[str, str | None]:
    account, endpoint = access.get("service_account"), access.get("endpoint")
    if account and "{" in account:
        raise DeclarationError(
            "bad-key-file",
            f"Spark reads the service account of {access.url} from a file only",
            hint=f"write the path of the file below storage: '{access.url}' of the environment",
        )
    return {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE" if account else None,
        "spark.hadoop.fs.gs.auth.service.account.json.keyfile": account,
        "spark.hadoop.fs.gs.storage.root.url": endpoint,
    }


def _google_delta(access: Access) -> dict[str, str | None]:
    account, endpoint = access.get("service_account"), access.get("endpoint")
    name = "google_service_account_key" if account and "{" in account else "google_service_account"
    return {
        name: account,
        "google_base_url": endpoint,
        "google_skip_signature": "true" if is_plain(endpoint) else None,
        "allow_http": "true" if is_plain(endpoint) else None,
    }
