"""● The burger promotion: the answer at once, payment and mails behind it."""
