"""What the tests need around them: database servers, and the fixtures that hand out databases."""
