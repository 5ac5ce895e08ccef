"""Delivery: each tenant's parts on their way to its upstream.

`delivery` has the lanes of all tenants. A `lane` knows the way of an upstream that takes what it is sent, its `trouble`
all others; both send over a `road`.
"""
