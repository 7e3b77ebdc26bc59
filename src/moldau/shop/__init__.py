"""● The shop: everything around the pipelines, from an order on the web to a mail and a page that shows it.

`orders/` an order by REST, once by its idempotency key, and its outcome; `burgers/` a promotion that answers at once;
`mails/` one mail an order and state; `live/` the content of the page; `web/` HTTP; `inside.py` puts it together; `command.py` is
`moldau shop`.
"""
