"""Entries of ``error.details``, one function for each type that FCM answers with.

Shapes: google/rpc/error_details.proto, and the public FCM reference for FcmError.
"""

from __future__ import annotations

from typing import Any

__all__ = ["error_info", "fcm_error", "quota_failure", "retry_info", "violation"]


def fcm_error(code: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}


def violation(field: str, description: str) -> dict[str, Any]:
    """A BadRequest with one field violation: FCM names the first fault that it finds."""
    return {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": description}],
    }


def error_info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": metadata,
    }


def quota_failure(subject: str, description: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"subject": subject, "description": description}],
    }


def retry_info(seconds: float) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:g}s"}
